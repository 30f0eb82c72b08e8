"""The PTX machine: executes compiled PTX on the CPU, checks every access and counts instructions. Independent
of tasks and judges."""
