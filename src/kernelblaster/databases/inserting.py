"""INSERT statements that say what to do if a row with the same key exists (ON CONFLICT). SQLite and
PostgreSQL write this in the same way, but SQLAlchemy has a module of its own for each."""

from typing import Any

from sqlalchemy import Connection, Engine, Table


def insert_into(connection: Connection | Engine, table: Table) -> Any:
    """An INSERT statement for `table` to which `on_conflict_do_nothing` or `on_conflict_do_update` can be
    added, in the dialect (SQLite or PostgreSQL) of the database of a connection or engine."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        return sqlite_insert(table)
    from sqlalchemy.dialects.postgresql import insert  # takes 0.1 s to import, which most commands can spare

    return insert(table)
