"""Several jobs on one cluster: which GPUs a job gets, which job is next, and who waits for whom."""
