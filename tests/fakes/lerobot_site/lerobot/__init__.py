"""A stand-in for lerobot 0.6.1: what the adapter calls, with policies of a few lines."""

__version__ = "0.6.1"
