"""The history of the schema, as Alembic migrations. They only go forward."""
