"""Search strategies: MAIC-RL, and those that it is compared with."""
