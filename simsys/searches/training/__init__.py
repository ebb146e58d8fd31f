"""Layouts of a training job: their axes, their memory and bounds in closed form. Start with `layouts.py`."""
