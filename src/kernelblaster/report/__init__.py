"""Benches, runs and knowledge bases as something to look at: a page, tables, figures. It only reads."""
