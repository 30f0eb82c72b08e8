"""Emitters: modules whose function `emit` writes a kernel as CUDA. Each lists in SCHEDULES the types of
schedules (layouts on the GPU) that it is for; emit.py finds it by that list. The other modules of this folder
help the emitters."""
