"""Notifies others of the ends of jobs: the addresses that are allowed, and the loop that sends.

``db.jobs.outbox`` keeps the messages; the routes are in ``service.routers.webhooks``.
"""
