"""How a search is done: MAIC-RL, and what it is compared with."""
