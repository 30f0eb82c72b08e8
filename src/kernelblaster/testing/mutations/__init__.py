"""Mutation operators, one kind of mistake a file: each lists small edits that break an honest kernel."""
