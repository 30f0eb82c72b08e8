"""How each aten operator becomes a kernel or an index map; a new operator is one function here."""
