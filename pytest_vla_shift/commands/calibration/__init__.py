"""What ``vla-shift calibrate`` measures: a module each."""
