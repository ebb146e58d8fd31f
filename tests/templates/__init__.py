"""Tests of `simsys.templates`."""
