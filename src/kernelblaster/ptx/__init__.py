"""The PTX machine, an emulator of GPUs: executes compiled PTX on the CPU, checks every access and counts
instructions. It knows nothing of tasks and judges."""
