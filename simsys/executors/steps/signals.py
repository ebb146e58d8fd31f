"""What is said to the loop of a replica's steps (`express_loop.py`), and what it says."""

LEFT = -1
"""What the loop yields when others have to go on."""
GROWN = "grown"
"""Sent to be told how many blocks decoding has taken in the middle of a run."""
CLOSE = "close"
"""Sent to settle for the last time."""
NEVER_AGAIN = -1.0
"""Host time of a step that no other follows evenly."""
