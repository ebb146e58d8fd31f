"""The version of simsys: its one place, which the build of the package reads."""

__version__ = "0.2.0"
