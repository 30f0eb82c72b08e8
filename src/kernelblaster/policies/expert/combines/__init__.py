"""Combines: a combine is the operation by which the elements of a reduction or scan become one result (sum,
max, argmax, online softmax, ...); one file for each kind. combine.py says what a new one must define."""
