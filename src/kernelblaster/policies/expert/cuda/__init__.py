"""CUDA C++ as a syntax tree: expressions (terms.py), statements (statements.py), whole functions (source.py),
and the printer that writes them as text. The emitters (emission/) build these trees for each kernel."""
