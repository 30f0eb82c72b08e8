"""What the databases of knowledge bases and of runs have in common: waiting out lost connections, and
migrations."""
