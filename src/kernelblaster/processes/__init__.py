"""Processes that end with the one that started them, however that ends."""
