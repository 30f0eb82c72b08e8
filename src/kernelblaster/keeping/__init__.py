"""The keeper: the process of a command that holds its API keys, its network access and the files that the
user named. It runs no code of task files or candidates. For the rest of the command, which is confined, it
uses only the servers, knowledge bases and files that were named before the code of task files ran."""
