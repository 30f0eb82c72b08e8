"""Lowerings: how each aten operator becomes a kernel of the plan, or an index map where it is only a view; a
new operator is one function here."""
