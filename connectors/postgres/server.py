"""One connection to the server, used from the thread of the sink's jobs: asyncpg on an event loop of its own, which
runs while something is asked."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from walflow import WalflowError
from walflow.tables import CannotUse

if TYPE_CHECKING:
    from asyncpg import Connection, Record

CONNECT: Final = 10.0  # seconds
LIMIT: Final = 30.0  # seconds that the server may take for one answer, or keep a transaction whose client is silent
LAST_WORD: Final = 0.05  # seconds
SLOW: Final = 5.0  # seconds of waiting, after which the server is asked who holds the lock
LOCKED: Final = 25.0  # seconds of it that may be spent on the locks of others
BEGIN: Final = (
    f"BEGIN; SET LOCAL lock_timeout = {LOCKED * 1000:.0f}; "
    f"SET LOCAL idle_in_transaction_session_timeout = {LIMIT * 1000:.0f}"
)
HOLDERS: Final = (
    "SELECT concat_ws(' ', 'process', pid, nullif(application_name, ''), 'of user', usename, client_addr) AS who "
    "FROM pg_stat_activity WHERE pid = ANY(pg_blocking_pids($1)) LIMIT 3"
)
NOT_HERE: Final = (
    "26000",
    "42P05",
)  # a prepared statement of another connection: a pool gives out connections by transaction

T = TypeVar("T")


class PostgresServer:
    """`password`: is asked for each connection; None: from the DSN, `PGPASSWORD` or `.pgpass`."""

    def __init__(self, dsn: str, password: Callable[[], str] | None = None) -> None:
        self._dsn = dsn
        self._password = password
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Connection[Record] | None = None
        self._warnings: list[str] = []
        self._pooled = False
        self._begin = BEGIN
        self._holder = ""  # of a lock that the last slow statement waited for

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    @property
    def connection(self) -> "Connection[Record]":
        assert self._connection is not None
        return self._connection

    def run(self, asked: Awaitable[T]) -> T:
        """Raises CannotUse; the connection is closed then."""
        if self._loop is None:
            self._loop = asyncio.SelectorEventLoop()
        try:
            return self._loop.run_until_complete(self._all_of(asked))
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            self._pooled |= isinstance(error, asyncpg.PostgresError) and error.sqlstate in NOT_HERE
            self.close()
            held = self._holder and isinstance(error, asyncpg.LockNotAvailableError)
            holder = f"; {self._holder}" if held else ""
            raise CannotUse(told(error) + holder) from error
        except WalflowError:
            self.close()
            raise

    async def _all_of(self, asked: Awaitable[T]) -> T:
        task = asyncio.ensure_future(asked)
        done, _ = await asyncio.wait((task,), timeout=SLOW)
        if not done and self._connection is not None:
            self._holder = ""
            with suppress(Exception):  # what is asked decides
                pid = self._connection.get_server_pid()
                self._holder = await asyncio.wait_for(self._asked_for_holder(pid), CONNECT)
        return await task

    async def _asked_for_holder(self, waits: int) -> str:
        """Who holds the lock that a process of the server waits for. While it waits, another connection must ask."""
        connection = await self._connected()
        try:
            found = await connection.fetch(HOLDERS, waits)
        finally:
            connection.terminate()
        return "; ".join(f"the lock is held by {row['who']}" for row in found)

    async def _connected(self) -> "Connection[Record]":
        return await asyncpg.connect(
            self._dsn,
            password=None if self._password is None else self._password(),
            timeout=CONNECT,
            command_timeout=LIMIT,
            target_session_attrs=SessionAttribute("read-write"),
            statement_cache_size=0 if self._pooled else 100,
            server_settings={"application_name": "walflow"},
        )

    async def connect(self) -> None:
        self._connection = connection = await self._connected()
        connection.add_log_listener(self._heard)
        safe = await connection.fetchval("SELECT current_setting('synchronous_commit')") != "off"
        self._begin = BEGIN if safe else f"{BEGIN}; SET LOCAL synchronous_commit = on"

    def _heard(self, _: object, message: asyncpg.PostgresLogMessage) -> None:
        if getattr(message, "severity_en", "") == "WARNING":
            self._warnings.append(str(message))

    async def begin(self) -> None:
        await self.connection.execute(self._begin)

    async def commit(self) -> None:
        """A warning says that the commit is not where it should be, as when a wait for a standby was cancelled."""
        self._warnings.clear()
        status = await self.connection.execute("COMMIT")
        await asyncio.sleep(0)  # what listeners are to hear is called soon
        if status != "COMMIT":
            raise CannotUse(f"the server answered {status} to COMMIT")
        if self._warnings:
            raise CannotUse(f"the server warned at COMMIT: {'; '.join(self._warnings)}")

    def close(self) -> None:
        """At once, without a word to the server: it rolls back what is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
        loop = self._loop
        if loop is not None:
            # The transport closes its socket in a call of its own. That of a connect that failed is not ours: asyncpg
            # closes it, and with TLS it waits for the server's last word.
            loop.run_until_complete(asyncio.sleep(0 if connection is not None else LAST_WORD))
            loop.close()
            self._loop = None


def told(error: BaseException) -> str:
    """In a line, with the SQLSTATE."""
    if isinstance(error, asyncpg.PostgresError):
        return f"{' '.join(str(error.args[0]).split())} (SQLSTATE {error.sqlstate})"  # its details show what rows say
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "no server of the dsn takes writes now: each is a standby, or read-only"
    if isinstance(error, asyncpg.InternalClientError):  # its own words are of its protocol's states
        return "the connection ended in the middle of an answer"
    if isinstance(error, TimeoutError):
        return f"no answer within {LIMIT:.0f} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


BY_ROW: Final = re.compile("22|23|44|21|38|39|54|P0")  # classes of SQLSTATE that blame what a row says


def blames_table(error: asyncpg.PostgresError) -> bool:
    """It is not there, is another one than it should be, or is not ours to write."""
    return (error.sqlstate or "").startswith("42")


def is_by_row(error: asyncpg.PostgresError) -> bool:
    """The row is to blame, and not the server or the table."""
    return BY_ROW.match(error.sqlstate or "") is not None
