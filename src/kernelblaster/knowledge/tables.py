"""Where a knowledge base is kept: the tables, how they are opened, and what is said when that fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry, StaticPool

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge.address import shown

FORMAT = 1
BUSY_MS = 60_000
LOCK = 0x6B62_6C61
"""Any fixed number: writers of one PostgreSQL knowledge base take turns on it."""

metadata = MetaData()
about = Table(
    "kb_about",
    metadata,
    Column("format", Integer, nullable=False),
    # The version at which all rows were last written anew; readers of older rows start over.
    Column("rebuilt", Integer, nullable=False),
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
    Index("kb_events_uid", "uid"),
)
states = Table(
    "kb_states",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("version", Integer, nullable=False, index=True),
    Column("body", Text, nullable=False),
)
optimizations = Table(
    "kb_optimizations",
    metadata,
    Column("state", String(200), primary_key=True),
    Column("technique", String(200), primary_key=True),
    Column("version", Integer, nullable=False, index=True),
    Column("body", Text, nullable=False),
)


class Database:
    """One database, opened. `name` is what messages call it, without a password."""

    def __init__(self, where: str | Path, create: bool) -> None:
        url = str(where) if "://" in str(where) else f"sqlite:///{where}"
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError) as error:
            raise KnowledgeError(f"{shown(str(where))}: is neither a file nor a database URL.") from error
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        self.sqlite = parsed.get_backend_name() == "sqlite"
        in_memory = self.sqlite and not parsed.database
        self.name = shown(str(where))
        if self.sqlite and not in_memory:
            _check_file(Path(parsed.database or ""), create)
        try:
            self.engine = (
                create_engine(parsed, poolclass=StaticPool, connect_args={"check_same_thread": False})
                if in_memory
                else create_engine(parsed, pool_pre_ping=not self.sqlite)
            )
        except ModuleNotFoundError as error:
            raise KnowledgeError(
                f"{self.name}: needs the package {error.name}; pip install 'kernelblaster[postgres]'."
            ) from error
        except SQLAlchemyError as error:
            raise KnowledgeError(f"{self.name}: is not a database that can be used: {error}") from error
        if self.sqlite:
            _prepare_sqlite(self.engine)
        with self.reading() as connection:
            ready = self._is_ready(connection, create)
        if not ready:
            with self.writing() as connection:
                self._create(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view."""
        engine = self.engine
        if not self.sqlite:
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with self._speaking("read"), engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction; writers take turns, so what is read in it is the latest."""
        with (
            self._speaking("written"),
            self.engine.execution_options(kb_writing=True).begin() as connection,
        ):
            if not self.sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
            yield connection

    def close(self) -> None:
        self.engine.dispose()

    def _is_ready(self, connection: Connection, create: bool) -> bool:
        """Whether the tables are there; False where they are to be created."""
        present = set(inspect(connection).get_table_names())
        if about.name in present:
            row = connection.execute(select(about.c.format)).first()
            if row is None or row.format != FORMAT:
                found = "none" if row is None else str(row.format)
                raise KnowledgeError(
                    f"{self.name}: has format {found}, this version of KernelBlaster reads format {FORMAT}."
                )
            return True
        if self.sqlite and present:
            raise KnowledgeError(
                f"{self.name}: is a database of something else ({', '.join(sorted(present)[:3])}); "
                "name another file."
            )
        if not create:
            raise KnowledgeError(f"{self.name}: holds no knowledge base.")
        return False

    def _create(self, connection: Connection) -> None:
        """Another process may have been quicker: then this one finds everything done."""
        if not inspect(connection).has_table(about.name):
            metadata.create_all(connection)
            connection.execute(about.insert().values(format=FORMAT, rebuilt=0))

    @contextmanager
    def _speaking(self, verb: str) -> Iterator[None]:
        """Database errors become one sentence that says what to do."""
        try:
            yield
        except (DBAPIError, PoolTimeout) as error:
            raise KnowledgeError(f"{self.name}: {_sentence(error, verb)}") from error


def _check_file(path: Path, create: bool) -> None:
    if path.is_dir():
        raise KnowledgeError(f"{path}: is a folder; name a file in it.")
    if not path.exists():
        if not create:
            raise KnowledgeError(f"{path}: there is no such knowledge base.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KnowledgeError(f"{path}: cannot be created: {error.strerror}.") from error


def _sentence(error: DBAPIError | PoolTimeout, verb: str) -> str:
    cause = getattr(error, "orig", None) or error
    words = str(cause).lower()
    if "not a database" in words or "malformed" in words or "no such table" in words:
        return (
            "is damaged, or not a knowledge base; restore a copy, or start a new one and import an "
            "exported document."
        )
    if "disk is full" in words or "no space left" in words or "disk i/o" in words:
        return "the disk is full or failing; what was recorded before is safe. Free some space and try again."
    if "locked" in words:
        return "is held by another process for too long; try again when it has finished."
    if "readonly" in words or "read-only" in words or "unable to open" in words:
        return f"cannot be {verb}: {cause}. Check the folder's permissions."
    if isinstance(error, DBAPIError) and (error.connection_invalidated or "connect" in words):
        return (
            "the connection to the database failed or was lost; what was recorded before is safe. "
            "Check the server and try again."
        )
    return f"cannot be {verb}: {' '.join(str(cause).split())}"


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        if cursor.execute("PRAGMA journal_mode").fetchone() == ("delete",) and _is_ours(cursor):  # type: ignore[func-returns-value]
            _use_wal(cursor)
        cursor.close()

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        writing = connection.get_execution_options().get("kb_writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _is_ours(cursor: object) -> bool:
    """Empty, or a knowledge base: nothing is changed in a database of something else."""
    tables = cursor.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()  # type: ignore[attr-defined]
    return not tables or (about.name,) in tables


def _use_wal(cursor: object) -> None:
    """Write-ahead logging stays with the file; where another process is setting it, that will do."""
    from sqlite3 import OperationalError

    try:
        cursor.execute("PRAGMA journal_mode=WAL")  # type: ignore[attr-defined]
    except OperationalError as error:
        if "locked" not in str(error):
            raise
