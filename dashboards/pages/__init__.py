"""One file for each kind of page; each has a ``router``."""
