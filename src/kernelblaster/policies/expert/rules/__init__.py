"""Rules of algebraic simplification, one file for each kind of operator; a new rule is one function in RULES.

A rule looks at one node of the graph and returns what can replace it: new nodes, or a reference to another
result; None if it does not apply. The result stays exactly the same or, where numbers are added or scaled in
another order, as exact as before.
"""
