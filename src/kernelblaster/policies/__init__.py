"""The policies of a search, which name performance states, choose techniques and write candidate kernels: the
built-in expert (`expert`), language models (`llm`), and rewrites of a user's own CUDA source (`rewrites`)."""
