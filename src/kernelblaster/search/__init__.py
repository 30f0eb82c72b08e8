"""Strategies: the ways to search for a faster candidate. The usual one is MAIC-RL, which chooses techniques
by what the knowledge base expects of them. The others are for comparison, or for a result within seconds
(`quick`)."""
