"""One search in one run, for whoever writes the loop: what to ask, what to tell, what is remembered."""
