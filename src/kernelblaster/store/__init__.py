"""Runs on disk: logs of events that are only appended to, and files named by a hash of their content. So a
run can be read and compared, and a run that was interrupted can be continued as if it had not been."""
