"""Artifacts by digest, wherever they lie, and files beside the database: durable and private.

``artifacts`` packs and checks them; ``storages`` says where they lie: a ``folder``, or ``rows`` of
the database; ``mark`` finds out whether all who share a database look there.
"""
