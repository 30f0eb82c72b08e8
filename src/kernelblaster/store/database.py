"""The database of a shared store, which keeps the runs of several users or machines: PostgreSQL on a server,
or a SQLite file if only processes of one machine use it."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Executable, Table, create_engine, event, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry

from kernelblaster import keeper
from kernelblaster.databases.inserting import insert_into
from kernelblaster.databases.patience import is_lost, patiently
from kernelblaster.errors import StoreError, StoreUnreachable
from kernelblaster.knowledge.drivers import connecting, prepare_postgres, sentence
from kernelblaster.passwords import shown, without_passwords
from kernelblaster.store import tables

T = TypeVar("T")


class StoreDatabase:
    """An open store at `where`, a URL or a file (SQLite), whose tables are created or migrated as needed.
    `name` is its address for messages, without a password. For use by many threads and processes at once.
    Raises StoreError if it cannot be opened."""

    def __init__(self, where: str | Path) -> None:
        url = str(where) if "://" in str(where) else f"sqlite:///{where}"
        self.name = shown(str(where))
        self._where = str(where)
        try:
            parsed = make_url(url)
            if parsed.drivername in ("postgresql", "postgres"):
                parsed = parsed.set(drivername="postgresql+psycopg")
            self.sqlite = parsed.get_backend_name() == "sqlite"
            self.engine: Engine = (
                create_engine(parsed)
                if self.sqlite
                else create_engine(parsed, pool_pre_ping=True, connect_args=connecting(parsed.query))
            )
        except ModuleNotFoundError as error:
            needs = f"needs the package {error.name}; pip install 'kernelblaster[postgres]'"
            raise StoreError(f"{self.name}: {needs}.") from error
        except (ArgumentError, ValueError, SQLAlchemyError) as error:
            raise StoreError(f"{self.name}: is neither a file nor a database URL.") from error
        self._passing = None if self.sqlite else _passing_engine(parsed)
        _prepare_sqlite(self.engine) if self.sqlite else prepare_postgres(self.engine)
        try:
            self.transact(_make_tables)
        except BaseException:
            self.close()
            raise

    def transact(self, work: Callable[[Connection], T], *, lasting: bool = True) -> T:
        """Calls `work` with a connection, in one transaction, and returns its result. While the server cannot
        be reached, calls `work` again. An earlier call may have succeeded unnoticed, so doing the work twice
        must have the same effect as doing it once. By default, the transaction is on the disk when this
        returns; if not `lasting`, a crash of the server may lose it. Raises StoreUnreachable if the server
        stays away for longer than the settings allow, StoreError for other errors."""
        return patiently(lambda _: self._once(work, lasting=lasting), StoreUnreachable)

    def note(self, statement: Executable, values: Mapping[str, Any]) -> Any:
        """Executes one statement with these values of its parameters, in a transaction of its own, with a
        single round trip to the server. Returns the first column of the result's first row, None if it has
        none. A crash of the server may lose the transaction. While the server cannot be reached, the
        statement is executed again, so executing it twice must have the same effect as once. Raises
        StoreUnreachable if the server stays away for too long, StoreError for other errors."""

        def execute(connection: Connection) -> Any:
            answer = connection.execute(statement, values)
            return answer.scalar() if answer.returns_rows else None

        if self._passing is None:
            return self.transact(execute, lasting=False)
        engine = self._passing
        return patiently(lambda _: self._explained(lambda: _with(engine, execute)), StoreUnreachable)

    def add(self, connection: Connection, table: Table, **values: Any) -> bool:
        """Inserts a row with the column values `values` into `table`, through `connection`, unless there is
        one with the same key. Returns whether it was inserted."""
        insert = insert_into(connection, table).values(**values).on_conflict_do_nothing()
        return bool(connection.execute(insert).rowcount)

    def close(self) -> None:
        self.engine.dispose()
        if self._passing is not None:
            self._passing.dispose()

    def _once(self, work: Callable[[Connection], T], *, lasting: bool) -> T:
        """Calls `work` with a connection in one transaction and returns its result, without trying again. If
        not `lasting`, does not wait until the server's disk has it. Raises as `_explained`."""

        def attempt() -> T:
            with self.engine.begin() as connection:
                if not self.sqlite and not lasting:
                    connection.execute(text("SET LOCAL synchronous_commit TO OFF"))
                return work(connection)

        return self._explained(attempt)

    def _explained(self, attempt: Callable[[], T]) -> T:
        """Returns what the function `attempt` returns. Raises StoreUnreachable if the connection is lost in
        it, StoreError if the database refuses."""
        try:
            return attempt()
        except (DBAPIError, PoolTimeout) as error:
            kind = StoreUnreachable if is_lost(error) else StoreError
            words = without_passwords(sentence(error, "used"), self._where)
            raise kind(f"{self.name}: {words}") from error


def _with(engine: Engine, work: Callable[[Connection], T]) -> T:
    """Calls `work` with a connection of the engine, which is closed afterwards, and returns its result. What
    `work` does not commit is undone."""
    with engine.connect() as connection:
        return work(connection)


def _passing_engine(url: URL) -> Engine:
    """An engine for single statements on PostgreSQL: each is a transaction of its own, for which nobody waits
    until it is on the disk. Connections are not tried before they are used, since whoever uses them tries
    again."""
    engine = create_engine(
        url, connect_args=connecting(url.query), isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=0
    )
    prepare_postgres(engine)

    @event.listens_for(engine, "connect")
    def connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute("SET synchronous_commit TO OFF")
        cursor.close()
        connection.commit()

    return engine


@cache
def open_store(where: str) -> StoreDatabase:
    """Opens the shared store (database) at the address `where`; further calls in this process return the same
    one. If a password is needed, it is taken from the environment (PGPASSWORD or ~/.pgpass)."""
    keeper.take_environment()
    return StoreDatabase(where)


def own_schema(store: StoreDatabase, url: str, schema: str) -> str:
    """Makes a schema (a namespace for tables) named `schema` in `store`, unless it exists, and returns the
    URL by which connections use that schema's tables. So a bench can have its knowledge base in the database
    that has its runs. `store` is a PostgreSQL database, `url` its URL."""
    store.transact(lambda connection: connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema}")))
    return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"


def _make_tables(connection: Connection) -> None:
    """Creates the store's tables in an empty database, or changes those of an earlier version to the present
    form; one process at a time. Raises StoreError if a later version made them."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": tables.LOCK})
    revision = tables.REVISIONS.present(connection)
    if revision is None:
        tables.metadata.create_all(connection)
        tables.REVISIONS.stamp(connection)
    elif revision > tables.REVISIONS.latest:
        raise StoreError(
            f"the store has revision {revision}, and this version of KernelBlaster knows up to "
            f"{tables.REVISIONS.latest}; install a later one."
        )
    elif revision != tables.REVISIONS.latest:
        tables.REVISIONS.upgrade(connection)


def _prepare_sqlite(engine: Engine) -> None:
    """Makes new connections of `engine` to SQLite wait for locks, use a write-ahead log, and begin
    transactions with the right to write. A crash of the machine may lose the last transactions, that of a
    process none."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        for setting in ("busy_timeout=60000", "journal_mode=WAL", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
