"""Private measurements."""
