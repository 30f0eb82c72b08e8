"""The database tables of a knowledge base. Every row has a checksum of its other columns, which rows.py
computes."""

from pathlib import Path

from sqlalchemy import Column, Index, Integer, MetaData, String, Table, Text

from kernelblaster.databases.migrating import Revisions

FORMAT = 3  # 2: checksums; 3: revised entries and exemplars
REVISIONS = Revisions(Path(__file__).parent / "migrations", latest="0003", table="kb_revision")
"""How tables of earlier formats become those below: a change of these is a new file there."""
BUSY_MS = 60_000
STATEMENT_MS = 600_000
LOCK = 0x6B62_6C61
"""Any fixed number: writers of one PostgreSQL knowledge base take turns on it."""

metadata = MetaData()
about = Table(
    "kb_about",
    metadata,
    Column("format", Integer, nullable=False),
    # The version at which all rows were last written anew; readers of older rows start over.
    Column("rebuilt", Integer, nullable=False),
    # The latest event, and how many rows the other tables have.
    Column("version", Integer),
    Column("states", Integer),
    Column("optimizations", Integer),
    Column("sum", String(16)),
)
events = Table(
    "kb_events",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("uid", String(64), nullable=False),
    Column("time", String(40), nullable=False),
    Column("kind", String(40), nullable=False),
    Column("payload", Text, nullable=False),
    Column("provenance", Text, nullable=False),
    Column("sum", String(16)),
    Index("kb_events_uid", "uid"),
)
states = Table(
    "kb_states",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("version", Integer, nullable=False, index=True),
    Column("body", Text, nullable=False),
    Column("sum", String(16)),
)
optimizations = Table(
    "kb_optimizations",
    metadata,
    Column("state", String(200), primary_key=True),
    Column("technique", String(200), primary_key=True),
    Column("version", Integer, nullable=False, index=True),
    Column("body", Text, nullable=False),
    Column("sum", String(16)),
)
