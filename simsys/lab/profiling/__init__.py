"""Profiles of real iterations: time by cause, collectives in order, memory by component."""
