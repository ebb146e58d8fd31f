"""How ranks are laid out and how a model is divided among them."""
