"""Devices that candidates (compiled CUDA sources under test) run on: a GPU, or the PTX machine, which
emulates one."""
