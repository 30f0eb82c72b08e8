"""The tables of a shared store: runs with their events and files, leases (which device works on what), and
evaluations that are kept."""

from pathlib import Path

from sqlalchemy import Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text

from kernelblaster.databases.migrating import Revisions

REVISIONS = Revisions(Path(__file__).parent / "migrations", latest="0001", table="store_revision")
LOCK = 0x6B62_7374
"""Any fixed number: whoever creates or migrates the tables of a PostgreSQL store holds it."""

metadata = MetaData()
runs = Table(
    "store_runs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("parent", String(64)),  # the bench that it belongs to
    Index("store_runs_parent", "parent"),
)
events = Table(
    "store_events",
    metadata,
    Column("run", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("line", Text, nullable=False),  # as in the file of a run: lines.py
)
files = Table(
    "store_files",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("text", Text, nullable=False),
)
leases = Table(
    "store_leases",
    metadata,
    Column("scope", String(64), primary_key=True),
    Column("work", String(200), primary_key=True),
    Column("about", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("losses", Integer, nullable=False),
    Column("why", Text, nullable=False),
    Column("since", Float, nullable=False),  # seconds since 1970
)
verdicts = Table(
    "store_verdicts",
    metadata,
    Column("gpu", String(100), primary_key=True),
    Column("task", String(32), primary_key=True),
    Column("code", String(32), primary_key=True),
    Column("text", Text, nullable=False),
)
