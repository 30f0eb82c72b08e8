"""The judge of candidates. A candidate is a CUDA source that should compute what a task's PyTorch module or
kernel does. The judge screens it for what is not allowed, compiles it, verifies its outputs, and times and
profiles it. Each of these stages has modules of its own. The judge does not know who wrote a candidate."""
