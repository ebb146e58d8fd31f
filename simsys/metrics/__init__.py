"""What is measured in a run, and how each figure is computed."""
