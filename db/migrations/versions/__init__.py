"""One file a schema version, numbered in order."""
