"""Roles of the search played by a language model: prompts, answers, and their use."""
