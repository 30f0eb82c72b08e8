"""Rewrites of a user's own CUDA source, for the expert policy: no plan stands behind it, only its text."""
