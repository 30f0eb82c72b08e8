"""Rules of algebraic simplification, by what they are about; a new rule is one function in RULES.

A rule looks at one node and says what it can be replaced by: other nodes, or one of its own operands.
It keeps the result exactly, or, where numbers are added or scaled in another order, as exactly as
before.
"""
