"""Root of the repository's own tests and suites."""

pytest_plugins = ["pytester"]
