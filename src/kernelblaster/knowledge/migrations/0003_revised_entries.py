"""Converts a knowledge base from format 2 to 3. The tables stay the same, but may now have further kinds of
events (`Revised` and `Exemplified`)."""

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
