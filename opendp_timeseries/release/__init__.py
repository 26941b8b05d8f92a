"""A release, its record, and the documents that hold them."""
