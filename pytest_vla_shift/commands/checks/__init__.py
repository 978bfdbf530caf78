"""The checks of ``vla-shift doctor``, one module a section."""
