"""How stages combine their elements, a file for each kind; a new one is one new file (combine.py says what is
asked of it)."""
