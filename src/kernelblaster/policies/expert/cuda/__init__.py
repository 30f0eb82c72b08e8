"""CUDA C++ as a tree: terms (terms.py), statements (statements.py), sources (source.py), and the printer that
writes them. Emission builds trees; nothing reads the text that comes out."""
