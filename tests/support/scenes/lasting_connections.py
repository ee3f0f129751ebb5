"""Connections to PostgreSQL whose sessions wait for the next user of their database.

Each test of tests/spec opens about six connections.  A new session takes 8 ms of processor time,
three quarters of it in the server, and its first statements read the catalogs again.
"""

from collections.abc import Sequence
from select import select
from threading import Lock
from typing import Any, ClassVar, Final, NamedTuple, Self

from psycopg import pq
from psycopg.pq import ExecStatus, TransactionStatus
from typing_extensions import override

from mintscope.kit.sql import postgres
from mintscope.kit.sql.postgres import BoundedConnection

IDLE_MAX: Final = 20  # of one process; the server accepts 100 connections


def connect_quickly() -> None:
    """Make `PostgresDatabase` reuse the sessions of closed connections, in this process."""
    vars(postgres)["BoundedConnection"] = LastingConnection


class _Session(NamedTuple):
    """A session of the server, and the arguments with which it was opened."""

    arguments: tuple[object, ...]
    pgconn: pq.abc.PGconn

    def is_in(self, port: int, database: str) -> bool:
        return (self.pgconn.port, self.pgconn.db) == (b"%d" % port, database.encode())

    def is_ended(self) -> bool:
        """Whether the server has ended the session: otherwise, there is nothing to read."""
        return bool(select([self.pgconn.socket], [], [], 0)[0])


class LastingConnection(BoundedConnection):
    """A connection that `close` keeps open for the next `connect` with the same arguments.

    This applies to sessions of *databases*.  `close` removes the session's locks, settings,
    temporary tables and prepared statements; a session in a transaction ends.
    """

    databases: ClassVar[set[tuple[int, str]]] = set()  # port of the server, and name
    _idle: ClassVar[list[_Session]] = []
    _taking: ClassVar[Lock] = Lock()
    _arguments: tuple[object, ...] = ()

    @classmethod
    @override
    def connect(  # type: ignore[override]  # only the arguments that the service uses
        cls, conninfo: str, *, autocommit: bool, prepare_threshold: int, **options: Any
    ) -> Self:
        """Return a connection over an idle session with these arguments, or over a new one."""
        arguments = (conninfo, *sorted(options.items()))
        session = cls._taken(arguments)
        if session is None:
            connection = super().connect(conninfo, **options)
        else:
            connection = cls(session.pgconn)
        connection.autocommit = autocommit
        connection.prepare_threshold = prepare_threshold
        connection._arguments = arguments
        return connection

    @override
    def close(self) -> None:
        """Close this connection; keep its session for the next one if it is like new."""
        if self._can_last() and self.pgconn.exec_(b"DISCARD ALL").status == ExecStatus.COMMAND_OK:
            self._idle.append(_Session(self._arguments, self.pgconn))
            self.pgconn = pq.PGconn()  # one without a server: this connection is closed
        super().close()

    @classmethod
    def pids_in(cls, port: int, database: str) -> Sequence[int]:
        """Return the process ids of the idle sessions of *database*, on the server at *port*."""
        return [each.pgconn.backend_pid for each in cls._idle if each.is_in(port, database)]

    @classmethod
    def forget(cls, port: int, database: str) -> None:
        """End the idle sessions of *database*, which is about to be removed."""
        cls.databases.discard((port, database))
        for each in [session for session in cls._idle if session.is_in(port, database)]:
            cls._idle.remove(each)
            each.pgconn.finish()

    @classmethod
    def _taken(cls, arguments: tuple[object, ...]) -> _Session | None:
        """Remove an idle session with *arguments* from the idle ones; None if there is none."""
        with cls._taking:  # threads connect at the same time
            for session in [each for each in cls._idle if each.arguments == arguments]:
                cls._idle.remove(session)
                if not session.is_ended():
                    return session
                session.pgconn.finish()
        return None

    def _can_last(self) -> bool:
        return (
            self.pgconn.transaction_status == TransactionStatus.IDLE
            and (self.info.port, self.info.dbname) in self.databases
            and len(self._idle) < IDLE_MAX
        )
