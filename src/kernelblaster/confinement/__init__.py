"""Confinement of the code of task files, the Python files that define a PyTorch module to be optimized: this
process and all that it starts lose access to the user's files, the network and other processes, for good
(docs/security.md)."""
