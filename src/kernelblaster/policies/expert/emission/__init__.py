"""Emitters: each module writes the kernels of one family of schedules as CUDA; a new family is one new
file."""
