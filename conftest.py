"""Makes the checkout importable for suites and tests."""
