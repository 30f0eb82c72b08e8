"""The policy in which a language model plays roles of the search (proposing techniques, writing code,
explaining results): the prompts, the types of the answers, and what is done with them."""
