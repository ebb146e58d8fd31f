"""The levels of detail beside each other: what medium saves, what it gets wrong, and which abstraction does it."""
