"""Jobs that were submitted: records, submission, status, logs."""
