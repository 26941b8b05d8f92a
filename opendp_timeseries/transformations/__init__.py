"""Stable transformations: event log → capped counts → smoothed counts."""
