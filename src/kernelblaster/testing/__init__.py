"""Contract suites (test classes that every implementation of an interface must pass), fake devices and
mutants of kernels, which other packages can import into their own tests."""
