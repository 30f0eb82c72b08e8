"""A fleet: devices of one or more machines that judge candidates for many searches at once. Each device is
owned by one process, on this machine or, with Ray, on others; a dispatcher hands requests to these
processes."""
