"""The embedded event log, the series of the paper, and loaders of its file formats."""
