"""The PTX machine: executes real compiled PTX on the CPU, checks every access, counts. Knows nothing of
tasks or judges."""
