"""Screen, compile, verify, time, profile: a file a stage. Knows nothing of who wrote a candidate."""
