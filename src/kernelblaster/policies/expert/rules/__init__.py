"""Rules of algebraic simplification, one file for each kind of operator; a new rule is one function more in
the list RULES of its file.

A rule gets one node of the graph and returns what can take its place: new nodes (the last one replaces it),
or a reference to an existing result; None if the rule does not apply. The numbers stay exactly the same or,
where they are added or scaled in another order, as precise as before.
"""
