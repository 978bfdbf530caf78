"""The audits of ``vla-shift audit``, one module each."""
