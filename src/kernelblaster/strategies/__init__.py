"""How the search is arranged: MAIC-RL, and what it is compared with."""
