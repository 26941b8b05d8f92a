"""What may be done with a release: post-processing, at no further privacy cost."""
