"""Who fills the roles of the search: the built-in expert policy, and language models."""
