"""Tests of simsys.capacity."""
