"""Training iterations: what happens between them, what of them repeats, and the passes of one of them."""
