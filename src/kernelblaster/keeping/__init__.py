"""The keeper: the process of a command that has its keys, its network and the files that the user named. It
runs no code of others, and does for the command, which is confined, only what was agreed on before."""
