"""The judge of candidates (CUDA sources that claim to compute what a task's PyTorch module or kernel does):
screens, compiles, verifies, times and profiles them; each stage has its own modules. It does not know who
wrote a candidate."""
