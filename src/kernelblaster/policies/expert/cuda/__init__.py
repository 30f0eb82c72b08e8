"""CUDA C++ as a syntax tree: terms (terms.py), statements (statements.py), functions (source.py), and the
printer that writes them as text. Emitters build these trees; nothing parses the text afterwards."""
