"""Where candidates run: a file a kind of device."""
