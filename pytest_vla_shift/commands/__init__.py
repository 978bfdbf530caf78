"""The commands of ``vla-shift``, one module each."""
