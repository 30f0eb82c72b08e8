"""Devices that candidates run on: a GPU, or the PTX machine that emulates one."""
