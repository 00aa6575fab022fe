"""Side-by-side measurements that a reader can run again; each prints what it measured."""
