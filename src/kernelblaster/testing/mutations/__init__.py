"""Mutation operators, one kind of mistake per file: each lists small edits that break a correct CUDA
kernel."""
