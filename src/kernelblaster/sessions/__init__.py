"""One search in one run, for whoever writes the loop: ask for advice, tell candidates, learn."""
