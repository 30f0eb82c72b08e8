"""Processes that are killed when the one that started them ends, however that happens."""
