"""Stand-ins for parts that a test replaces on purpose, and kernels made to misbehave."""
