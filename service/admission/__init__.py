"""No caller stops the others: what is let in, how much of it, for how long, and in which order.

``connections`` bounds connections and how slowly a request may come. ``requests`` holds each
caller to a share of the threads that answer, and of the streams. ``lookups`` gives misses and
batches of the best-query an executor of their own, in pieces, which ends when the client goes;
``looker`` is what works there, and ``lookers`` the threads or processes it works in. ``turns``
hands out the places of all of these in turn among callers.
"""
