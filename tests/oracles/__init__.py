"""Slow, independent truths: these modules share no code with the package."""
