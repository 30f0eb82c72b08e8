"""Emitters: modules whose `emit` writes a kernel as CUDA, for the schedules (layouts on the GPU) that the
module lists in SCHEDULES; the other modules help them. emit.py finds the emitters by that list."""
