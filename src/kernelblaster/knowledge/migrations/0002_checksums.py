"""Converts a knowledge base from format 1 to 2: every row gets a checksum, and kb_about gets the latest
version and the numbers of rows. The rows that are there are assumed to be undamaged."""

import sqlalchemy as sa
from alembic import op

from kernelblaster.knowledge.rows import summed
from kernelblaster.knowledge.tables import about, events, optimizations, states

revision = "0002"
down_revision = "0001"
NEW = {
    "kb_about": ("version", "states", "optimizations"),
    "kb_events": (),
    "kb_states": (),
    "kb_optimizations": (),
}


def upgrade() -> None:
    connection = op.get_bind()
    for table, numbers in NEW.items():
        present = {column["name"] for column in sa.inspect(connection).get_columns(table)}
        for name in (*numbers, "sum"):
            if name not in present:
                op.add_column(table, sa.Column(name, sa.String(16) if name == "sum" else sa.Integer))
    for rows in (events, states, optimizations):
        for row in connection.execute(sa.select(rows)).all():
            values = {c.name: getattr(row, c.name) for c in rows.columns if c.name != "sum"}
            own = [column == getattr(row, column.name) for column in rows.primary_key]
            connection.execute(sa.update(rows).where(*own).values(sum=summed(rows, values)["sum"]))
    counted = {
        "rebuilt": connection.execute(sa.select(about.c.rebuilt)).scalar() or 0,
        "version": connection.execute(sa.select(sa.func.max(events.c.version))).scalar() or 0,
    }
    for name, rows in (("states", states), ("optimizations", optimizations)):
        counted[name] = connection.execute(sa.select(sa.func.count()).select_from(rows)).scalar() or 0
    connection.execute(about.update().values(**summed(about, {"format": 2, **counted})))
