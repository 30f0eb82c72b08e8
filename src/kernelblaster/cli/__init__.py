"""One thin file a verb: parse, call the public API, print."""
