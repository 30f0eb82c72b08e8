"""Lets the built-in expert policy optimize a user's own CUDA source by editing its text at recognized
patterns, without knowing what it computes."""
