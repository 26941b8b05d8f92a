"""What decides a release, in public facts: unit of privacy, caps, stages, sampling and noise. No OpenDP, no data."""
