"""Creates the tables of a knowledge base in format 1: without checksums of rows and without counts of
rows."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "kb_about",
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("rebuilt", sa.Integer, nullable=False),
    )
    op.create_table(
        "kb_events",
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("time", sa.String(40), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("provenance", sa.Text, nullable=False),
    )
    op.create_index("kb_events_uid", "kb_events", ["uid"])
    op.create_table(
        "kb_states",
        sa.Column("name", sa.String(200), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("ix_kb_states_version", "kb_states", ["version"])
    op.create_table(
        "kb_optimizations",
        sa.Column("state", sa.String(200), primary_key=True),
        sa.Column("technique", sa.String(200), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("ix_kb_optimizations_version", "kb_optimizations", ["version"])
    op.execute("INSERT INTO kb_about (format, rebuilt) VALUES (1, 0)")
