"""As in lerobot."""
