"""What results mean: what holds a run up, and how it scales."""
