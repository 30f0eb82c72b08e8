"""Migrates to format 3: the same tables, with more kinds of events in them (revised entries and
exemplars)."""

import sqlalchemy as sa
from alembic import op

from kernelblaster.knowledge.rows import checked, summed
from kernelblaster.knowledge.tables import about

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    connection = op.get_bind()
    row = checked(about, connection.execute(sa.select(about)).one())
    counted = {name: getattr(row, name) for name in ("rebuilt", "version", "states", "optimizations")}
    connection.execute(about.update().values(**summed(about, {"format": 3, **counted})))
