"""The schema, as Alembic migrations: so far one, as no release has left databases behind.

Until then a change in the models makes it anew, on an empty database::

    rm db/migrations/versions/v0001_*.py
    HVXTUNE_DATABASE_URL=sqlite:///new.sqlite alembic -c db/alembic.ini revision \\
        --autogenerate --rev-id 0001 -m "first schema"

Later ones are added with the next number, which ``SCHEMA_VERSION`` in ``db/schema.py`` names, run
on SQLite (that is, in batches) and PostgreSQL, and keep every row.
"""
