"""Migrates knowledge bases of earlier formats when they are opened."""

from sqlalchemy import Connection, func, inspect, select, text, update

from kernelblaster.knowledge import rows, tables


def migrate(connection: Connection) -> None:
    """Migrate from an earlier format, in the caller's transaction. Does nothing if another process already
    has."""
    format = connection.execute(text("SELECT format FROM kb_about")).scalar()
    if format == 1:
        _add_checksums(connection)
    elif format == 2:  # the same tables, with fewer kinds of events in them
        row = rows.checked(tables.about, connection.execute(select(tables.about)).one())
        counted = {name: getattr(row, name) for name in ("rebuilt", "version", "states", "optimizations")}
        _write_about(connection, counted)


def _add_checksums(connection: Connection) -> None:
    """Migrate from format 1, which had no checksums: present rows are assumed to be whole."""
    for table in (tables.about, tables.events, tables.states, tables.optimizations):
        present = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in present:
                kind = column.type.compile(connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"))
    for table in (tables.events, tables.states, tables.optimizations):
        for row in connection.execute(select(table)).all():
            values = {c.name: getattr(row, c.name) for c in table.columns if c.name != "sum"}
            own = [column == getattr(row, column.name) for column in table.primary_key]
            connection.execute(update(table).where(*own).values(sum=rows.summed(table, values)["sum"]))
    counted = {
        "rebuilt": connection.execute(select(tables.about.c.rebuilt)).scalar() or 0,
        "version": connection.execute(select(func.max(tables.events.c.version))).scalar() or 0,
        "states": connection.execute(select(func.count()).select_from(tables.states)).scalar() or 0,
        "optimizations": connection.execute(select(func.count()).select_from(tables.optimizations)).scalar()
        or 0,
    }
    _write_about(connection, counted)


def _write_about(connection: Connection, counted: dict[str, int]) -> None:
    """Write the row about all tables, in the present format."""
    values = rows.summed(tables.about, {"format": tables.FORMAT, **counted})
    connection.execute(tables.about.update().values(**values))
