"""What Alembic executes to run migrations: they use the database connection, and with it the transaction, of
the code that asked for them (migrating.py)."""

from alembic import context

given = context.config.attributes
context.configure(connection=given["connection"], version_table=given["version_table"])
with context.begin_transaction():
    context.run_migrations()
