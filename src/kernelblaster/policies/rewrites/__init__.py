"""Rewrites of a user's own CUDA source for the expert policy, on the text alone."""
