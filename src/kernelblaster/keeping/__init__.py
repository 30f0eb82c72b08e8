"""The keeper: the process of a command that holds its API keys, its network access and the files that the
user named. It runs no code of tasks, and does for the confined rest of the command only what was agreed on
before."""
