"""Alembic's environment: runs migrations in the transaction of whoever asked for them (migrating.py)."""

from alembic import context

given = context.config.attributes
context.configure(connection=given["connection"], version_table=given["version_table"])
with context.begin_transaction():
    context.run_migrations()
