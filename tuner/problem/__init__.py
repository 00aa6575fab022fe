"""The problem of a job: workload, contract, target, and how buffers lie under them."""
