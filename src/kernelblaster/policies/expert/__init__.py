"""The built-in policy: states from metrics, plans from graphs, techniques as rewrites of plans."""
