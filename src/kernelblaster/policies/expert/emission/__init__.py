"""How each family of kernels is written as CUDA; a new family is one new file."""
