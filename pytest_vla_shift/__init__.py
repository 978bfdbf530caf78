"""Robustness of vision-language-action policies, as pytest tests."""

__version__ = "0.1.0"
