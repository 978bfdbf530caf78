"""A folder for ``sys.path``: a ``lerobot`` and a ``torch`` that have what the adapter asks of them.

The real ones need gigabytes and Python 3.12. That these have the same signatures is checked where
the real ones can be imported: tests/conformance/test_lerobot.py.
"""
