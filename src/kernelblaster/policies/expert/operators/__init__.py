"""Lowerings: a lowering is a function that turns an aten operator into a kernel of the plan or, where it is
only a view, into an index map. To support a new operator, add a function here."""
