"""Runs on disk: append-only events and content-addressed files, so that a run can be read, compared and
continued exactly where it was."""
