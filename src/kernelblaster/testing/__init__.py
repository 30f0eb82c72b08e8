"""Contract suites and fakes that others can import into their own tests."""
