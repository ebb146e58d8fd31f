"""Deployments of a serving scenario: axes, memory and bounds in closed form. Start with `deployments.py`."""
