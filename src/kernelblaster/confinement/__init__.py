"""Confinement of the code of tasks: this process and all that it starts lose the files, the network and the
other processes of the user, for good (docs/security.md)."""
