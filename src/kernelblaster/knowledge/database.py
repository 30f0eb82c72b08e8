"""Opens a knowledge base's database: SQLite in a file, or PostgreSQL on a server."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, create_engine, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import StaticPool

from kernelblaster.databases.patience import is_lost, patiently
from kernelblaster.errors import KnowledgeError, KnowledgeUnreachable
from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.drivers import RESTORE, connecting, prepare_postgres, prepare_sqlite, sentence
from kernelblaster.knowledge.entry_rows import entry_keys, record_in_entries
from kernelblaster.knowledge.event_rows import Fresh
from kernelblaster.knowledge.head import Head
from kernelblaster.knowledge.pipelined import DURABLE, PipelinedWriter
from kernelblaster.knowledge.rows import Damaged, summed
from kernelblaster.knowledge.tables import FORMAT, LOCK, REVISIONS, about, metadata
from kernelblaster.passwords import shown, without_passwords

T = TypeVar("T")


class Database:
    """The open database of a knowledge base: SQLite in a file, or PostgreSQL. `where` is its path or URL. If
    there is no database, it is created if `create` is set. Tables of an older format are converted.
    `trusting` skips the checks that a file is undamaged and has the last version written. With `reading_only`
    nothing is changed or checked. The attribute `name` is the address without a password, for messages;
    `file` is the path of a SQLite file, None for other databases. Raises KnowledgeError if the database
    cannot be opened or is damaged."""

    def __init__(
        self, where: str | Path, create: bool, trusting: bool = False, reading_only: bool = False
    ) -> None:
        """Opens the database at `where`, a path or a database URL. `create`: make a database if there is
        none. `trusting`: skip the checks that the file is whole and ends at the last version written.
        `reading_only`: change nothing, neither the format of an older database nor the files beside it; that
        implies `trusting`."""
        trusting = trusting or reading_only
        self._reading_only = reading_only
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
        self._where = str(where)
        self.file = Path(parsed.database or "") if self.sqlite and not in_memory else None
        self._trusting = trusting
        self._head: Head | None = None
        self._settled = 0
        reached = 0
        if self.file is not None:
            self._head = Head(self.file)
            if not self.file.exists() and not reading_only:
                self._head.drop()
            _check_file(self.file, create)
            reached = 0 if trusting else self._head.read()  # before what it is compared with
        try:
            if in_memory:
                own = {"check_same_thread": False}
                self.engine = create_engine(parsed, poolclass=StaticPool, connect_args=own)
            elif self.sqlite:
                self.engine = create_engine(parsed)
            else:
                limits = connecting(parsed.query)
                self.engine = create_engine(parsed, pool_pre_ping=True, connect_args=limits)
        except ModuleNotFoundError as error:
            raise KnowledgeError(
                f"{self.name}: needs the package {error.name}; pip install 'kernelblaster[postgres]'."
            ) from error
        except SQLAlchemyError as error:
            words = without_passwords(str(error), str(where))
            raise KnowledgeError(f"{self.name}: is not a database that can be used: {words}") from error
        if self.sqlite:
            prepare_sqlite(self.engine, reading_only=reading_only)
        else:
            prepare_postgres(self.engine)
        self._writer = None if self.sqlite else PipelinedWriter(self.engine)
        try:
            self.patiently(lambda _: self._begin(create, trusting, reached))
        except BaseException:
            self.engine.dispose()
            raise

    def _begin(self, create: bool, trusting: bool, reached: int) -> None:
        """Checks the tables; creates them if there are none, or migrates them to the present format.
        `reached` is a version known to have been written, so that its event must be there (0: unknown). With
        `trusting`, a SQLite file is not checked as a whole. Raises KnowledgeError."""
        with self.reading() as connection:
            self._check_end(connection, reached)
            format = self._format(connection, create)
            if self.file is not None and not trusting:
                self._check_whole(connection)
        if format is None:
            with self.writing() as connection:
                self._create(connection)
        elif format < FORMAT and self._reading_only:
            raise KnowledgeError(
                f"{self.name}: has format {format}; the present one is {FORMAT}. Any other command brings "
                "it up to that, such as `kernelblaster kb stats --kb FILE`."
            )
        elif format < FORMAT:
            with self.writing() as connection:
                self._migrate(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A context that gives a connection on which all reads see the same state of the database. Errors of
        the database are raised as KnowledgeError."""
        engine = self.engine
        if not self.sqlite:
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with self._speaking("read"), engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A context that gives a connection with an open transaction, which is committed at the context's end
        and rolled back on an exception. Only one process can be in such a context at a time, so what is read
        in it is the latest version."""
        with (
            self._speaking("written"),
            self.engine.execution_options(kb_writing=True).begin() as connection,
        ):
            if not self.sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
            yield connection

    def record_in_entries(self, known: Content, fresh: Sequence[Fresh]) -> int | None:
        """Records the changes `fresh` in a transaction of its own and returns the new version. Each change
        comes with its provenance (where it comes from) and its identity (a text by which it is recognized in
        every knowledge base).

        This is a fast way for changes that concern one technique in one performance state each: only the rows
        of these techniques are read; all else is taken from `known`, a content read earlier. Writes nothing
        and returns None if the rows and `known` do not suffice, for example because a state was merged after
        `known` was read. The caller must then record the changes in the usual, slower way.
        """
        if self._writer is not None:
            with self._speaking("written"):
                return self._writer.record(known, fresh)
        if not entry_keys(known, fresh):
            return None
        with self.writing() as connection:
            return record_in_entries(connection, known, fresh)

    def settle(self, connection: Connection, version: int) -> None:
        """Waits until all changes up to `version`, which this connection has read, are on the PostgreSQL
        server's disk; then ends the connection's transaction. This is needed because writers commit before
        their changes are on the disk, so that a reader may see changes that a power cut would lose. Does
        nothing for SQLite files, where writers wait for the disk before they commit."""
        if not self.sqlite and version > self._settled:
            connection.execute(text(DURABLE))
            connection.commit()
            self._settled = version

    def patiently(self, attempt: Callable[[bool], T]) -> T:
        """Calls `attempt` and returns its result. While the database server cannot be reached, calls it
        again, for a limited time; raises KnowledgeUnreachable after that. `attempt` gets True at the first
        call and False at later ones. At a later call, it has to expect that an earlier one did its work,
        though the connection was lost before that was known."""
        return patiently(attempt, KnowledgeUnreachable)

    def reached(self, version: int) -> None:
        """Notes that the knowledge base has been written up to `version`, the number of its latest event. If
        the database is a SQLite file, the number is kept in a small file next to it, so that a later opening
        finds out if SQLite has lost changes. Does nothing for other databases."""
        if self._head is not None:
            self._head.reach(version)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self.engine.dispose()
        if self._head is not None and not self._trusting:
            self._head.forget()

    def _format(self, connection: Connection, create: bool) -> int | None:
        """The format number of the tables; None if there are none and they may be created. Raises
        KnowledgeError for a newer format, the database of another program, or a missing knowledge
        base."""
        present = set(inspect(connection).get_table_names())
        if about.name in present:
            version = connection.execute(text("SELECT format FROM kb_about")).scalar()
            if not isinstance(version, int) or not 1 <= version <= FORMAT:
                raise KnowledgeError(
                    f"{self.name}: has format {version}, this version of KernelBlaster reads up to format "
                    f"{FORMAT}; install a later one. If it was written by this one, it is damaged: {RESTORE}"
                )
            return version
        if self.sqlite and present:
            raise KnowledgeError(
                f"{self.name}: is a database of something else ({', '.join(sorted(present)[:3])}); "
                "name another file."
            )
        if not create:
            raise KnowledgeError(f"{self.name}: holds no knowledge base.")
        return None

    def _check_end(self, connection: Connection, reached: int) -> None:
        """Raise KnowledgeError if the events end before version `reached`, which is known to have been
        written (0: unknown)."""
        if not reached:
            return
        known = inspect(connection).has_table(about.name)
        last = connection.execute(text("SELECT max(version) FROM kb_events")).scalar() if known else 0
        if int(last or 0) < reached:
            raise self.damaged(
                f"it had come to version {reached}, and ends with {last or 0}: its log ({self.name}-wal) is "
                "damaged, and SQLite leaves out the rest"
            )

    def _check_whole(self, connection: Connection) -> None:
        """Run SQLite's quick check of the file; raises KnowledgeError if it fails. (Indices are not
        checked: the rows that they lead to are, by their checksums.)"""
        result = connection.execute(text("PRAGMA quick_check(1)")).scalar()
        if result != "ok":
            raise self.damaged(str(result))

    def _create(self, connection: Connection) -> None:
        """Creates the tables of a new knowledge base in an empty database, at version 0. Does nothing if
        another process has just done so."""
        if not inspect(connection).has_table(about.name):
            metadata.create_all(connection)
            REVISIONS.stamp(connection)
            nothing = {"rebuilt": 0, "version": 0, "states": 0, "optimizations": 0}
            connection.execute(about.insert().values(**summed(about, {"format": FORMAT, **nothing})))

    def _migrate(self, connection: Connection) -> None:
        """Migrate tables of an earlier format, unless another process just has. Format N is revision N of the
        migrations, which is stamped first, as old databases do not record it."""
        format = connection.execute(text("SELECT format FROM kb_about")).scalar()
        if format != FORMAT:
            REVISIONS.stamp(connection, f"{format:04}")
            REVISIONS.upgrade(connection)

    def damaged(self, what: str) -> KnowledgeError:
        """Returns the KnowledgeError to raise for damage that `what` describes; its message adds how to
        recover."""
        what = " ".join(what.split())
        return KnowledgeError(f"{self.name}: is damaged: {what}. {RESTORE}")

    @contextmanager
    def _speaking(self, verb: str) -> Iterator[None]:
        """A context that turns database errors into a KnowledgeError of one sentence that says what to
        do. `verb` is what was being done: "read" or "written"."""
        try:
            yield
        except Damaged as error:
            raise self.damaged(str(error)) from error
        except (DBAPIError, PoolTimeout, self.engine.dialect.loaded_dbapi.Error) as error:
            words = without_passwords(sentence(error, verb), self._where)
            kind = KnowledgeUnreachable if is_lost(error) else KnowledgeError
            raise kind(f"{self.name}: {words}") from error
        except UnicodeDecodeError as error:
            raise self.damaged("a text in it cannot be read") from error


def _check_file(path: Path, create: bool) -> None:
    """Raise KnowledgeError if `path` cannot be a knowledge base; make its folder if it is to be created."""
    if path.is_dir():
        raise KnowledgeError(f"{path}: is a folder; name a file in it.")
    if not path.exists():
        if not create:
            raise KnowledgeError(f"{path}: there is no such knowledge base.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KnowledgeError(f"{path}: cannot be created: {error.strerror}.") from error
