"""Tells others of the ends of jobs: which addresses may be told, and the loop that sends.

``db.jobs.outbox`` keeps the messages; the routes are in ``service.routers.webhooks``.
"""
