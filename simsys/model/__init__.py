"""What a model costs, free of hardware."""
