"""Database migration: creates the first tables of a shared store."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "store_runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("parent", sa.String(64)),
    )
    op.create_index("store_runs_parent", "store_runs", ["parent"])
    op.create_table(
        "store_events",
        sa.Column("run", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("line", sa.Text, nullable=False),
    )
    op.create_table(
        "store_files",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_table(
        "store_leases",
        sa.Column("scope", sa.String(64), primary_key=True),
        sa.Column("work", sa.String(200), primary_key=True),
        sa.Column("about", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("held", sa.Boolean, nullable=False),
        sa.Column("losses", sa.Integer, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
    )
    op.create_table(
        "store_verdicts",
        sa.Column("gpu", sa.String(100), primary_key=True),
        sa.Column("task", sa.String(32), primary_key=True),
        sa.Column("code", sa.String(32), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )
