"""The roles of the search played by a language model: prompts, answers, and what is made of them."""
