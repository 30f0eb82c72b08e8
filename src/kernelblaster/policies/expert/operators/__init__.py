"""Lowerings: functions that turn an aten operator into a kernel of the plan or, where it is only a view, into
an index map. A new operator is one more function here."""
