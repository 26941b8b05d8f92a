"""Releases, their records, and documents of several."""
