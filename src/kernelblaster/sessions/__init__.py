"""One search in one run, for whoever writes the search loop: ask for advice, tell candidates, learn from the
results."""
