"""Estimators: from noisy values to estimates and their errors, numbers in and numbers out."""
