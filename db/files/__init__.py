"""Artifacts by digest, wherever they lie, and files beside the database: durable and private.

``artifacts`` packs and checks them; ``storages`` says where they lie: ``folder``, ``rows`` of the
database, or a ``bucket``; ``mark`` finds out whether all who share a database look there.
"""
