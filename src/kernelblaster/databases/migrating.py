"""Migrations of databases with Alembic, from one revision (schema version) to the next. Each set of tables
has a folder with its revisions. The revision that a database has is recorded in the database itself, in a
table for each set; so several sets can share a database."""

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

ENVIRONMENT = Path(__file__).parent / "alembic"


@dataclass(frozen=True)
class Revisions:
    """The revisions (schema versions) of one set of tables. `folder` has a file for each revision, `latest`
    is the name of the latest one, `table` the name of the database table in which a database records which
    revision it has."""

    folder: Path
    latest: str
    table: str

    def present(self, connection: Connection) -> str | None:
        """The revision that this connection's database records for the tables; None if it records none."""
        if not inspect(connection).has_table(self.table):
            return None
        found: str | None = connection.execute(select(self._table().c.version_num)).scalar()
        return found

    def stamp(self, connection: Connection, revision: str | None = None) -> None:
        """Records in the database of `connection` that the tables are at `revision` (None: the latest),
        without changing the tables. For tables that were just created."""
        table = self._table()
        table.create(connection, checkfirst=True)
        connection.execute(table.delete())
        connection.execute(table.insert().values(version_num=revision or self.latest))

    def upgrade(self, connection: Connection) -> None:
        """Changes the tables in the database of `connection` from the revision that it records to the latest
        one, within the caller's transaction. If it records no revision, all revisions are applied, beginning
        with an empty database."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(ENVIRONMENT))
        config.set_main_option("version_locations", str(self.folder))
        config.set_main_option("path_separator", "newline")
        config.attributes |= {"connection": connection, "version_table": self.table}
        command.upgrade(config, "head")

    def _table(self) -> Table:
        """The one-row table that holds the revision of this set of tables, as SQLAlchemy describes it."""
        return Table(self.table, MetaData(), Column("version_num", String(32), primary_key=True))
