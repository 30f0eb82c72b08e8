"""Migrates knowledge bases of earlier formats when they are opened."""

from sqlalchemy import Connection, func, inspect, select, text, update

from kernelblaster.knowledge import rows, tables


def migrate(connection: Connection) -> None:
    """Migrate from format 1, which had no checksums, in the caller's transaction: present rows are
    assumed to be whole. Does nothing if another process already has."""
    if connection.execute(text("SELECT format FROM kb_about")).scalar() != 1:
        return  # another process was quicker
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
    values = rows.summed(tables.about, {"format": tables.FORMAT, **counted})
    connection.execute(tables.about.update().values(**values))
