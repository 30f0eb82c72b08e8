"""Strategies, the ways to search for a faster candidate: MAIC-RL, which chooses techniques by what the
knowledge base expects of them, and those that it is compared with."""
