"""Contract suites and fakes that other packages can import into their own tests."""
