"""The commands, a file each: every one calls a function or two and prints what they return."""
