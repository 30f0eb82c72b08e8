"""What a run found, in a form that others can use: a `.cu`, a KernelBench file, a torch module."""
