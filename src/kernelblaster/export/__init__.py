"""Export the best candidate of a run: as a `.cu`, a KernelBench file, or a torch module."""
