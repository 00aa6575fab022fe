"""The history of the schema, as Alembic migrations. They only go forward.

After a change in ``db/models.py``: ``alembic -c db/alembic.ini revision --autogenerate --rev-id
NNNN -m "what changes"``, with the next number; read what it wrote, and set ``SCHEMA_VERSION`` in
``db/schema.py``. A migration must run on SQLite and PostgreSQL and keep every row.
"""
