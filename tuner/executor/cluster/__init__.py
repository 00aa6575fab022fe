"""Candidates compiled and measured on a Dask cluster.

``connection`` is the client's connection, ``executor`` what the search loop sees: a generator and a
measurer whose calls run on workers, and ``tasks`` those calls as a worker runs them. ``offers``
says what a worker can do, ``processes`` starts workers and schedulers, ``encryption`` says who
needs certificates, and ``authority`` makes them. Needs the extra ``dask``, which is imported late.
"""
