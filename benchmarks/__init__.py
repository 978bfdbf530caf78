"""What things cost: ``python -m benchmarks`` measures against the targets, one line a row."""
