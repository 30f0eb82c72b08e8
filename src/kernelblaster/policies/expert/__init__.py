"""The built-in policy, without a language model: it names what bounds a kernel from its metrics, turns the
task's PyTorch graph into a plan of kernels, applies techniques as rewrites of that plan, and emits CUDA."""
