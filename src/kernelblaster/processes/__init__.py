"""Starts processes (compilers, workers) that are killed when the process that started them ends, however that
happens."""
