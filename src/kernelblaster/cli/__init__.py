"""The command line: one module for each command, which reads its options, calls the API and prints the
result."""
