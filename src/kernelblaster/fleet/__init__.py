"""Devices of one or more machines that judge for many searches: each is owned by one process, on this machine
or, with Ray, on others."""
