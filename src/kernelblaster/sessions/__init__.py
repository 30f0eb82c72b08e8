"""What a search loop needs, for whoever writes one: ask for advice, tell candidates, learn from the
results."""
