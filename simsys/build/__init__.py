"""From configuration to runtime objects: the only package that knows both sides."""
