"""What the databases of knowledge bases and of runs have in common: repeating an operation when the
connection was lost, and migrations between versions of their tables."""
