"""What was sent and echoed, against what is in the file: every line is looked at."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from demo.lines import Lines, Number

REPORT_EVERY: Final = 50_000  # lines
LONG: Final = 1_000  # bytes of text in a line


@dataclass
class Connection:
    """A connection sends a run of ids: from `first` up to, not including, `next`."""

    first: int
    next: int


@dataclass
class Account:
    """One client's side of it. Its lines are numbered 0, 1, 2 … and come back in that order."""

    client: int
    connections: list[Connection] = field(default_factory=list[Connection])
    echoed: int = 0  # all ids below
    altered: list[bytes] = field(default_factory=list[bytes])  # came back, and is no line that was sent
    foreign: list[bytes] = field(default_factory=list[bytes])  # came back, and is another client's
    unasked: list[bytes] = field(default_factory=list[bytes])  # its own, again or out of turn

    @property
    def sent(self) -> int:
        return max((connection.next for connection in self.connections), default=0)

    @property
    def transmitted(self) -> int:
        return sum(connection.next - connection.first for connection in self.connections)

    def has_sent(self, number: Number) -> bool:
        if number.connection >= len(self.connections):
            return False
        connection = self.connections[number.connection]
        return connection.first <= number.id < connection.next


@dataclass(frozen=True)
class Faults:
    """All of them must be 0."""

    missing: int = 0  # echoed, and not in the file
    altered: int = 0  # in the file and never sent so: torn, mixed, invented
    duplicated: int = 0  # one transmission twice in the file: the server's doing, not the client's
    disordered: int = 0  # behind a later line of the same connection
    altered_echoes: int = 0
    foreign_echoes: int = 0
    unasked_echoes: int = 0

    def __bool__(self) -> bool:
        return any(getattr(self, fault.name) for fault in fields(self))


@dataclass(frozen=True)
class Ledger:
    sent: int  # lines, each counted once
    sent_again: int
    echoed: int
    in_file: int
    distinct: int  # lines in the file, each counted once
    long: int  # lines in the file
    faults: Faults

    @property
    def repeated(self) -> int:
        """Lines that are in the file again because their client sent them again."""
        return self.in_file - self.faults.altered - self.faults.duplicated - self.distinct


class FileReader:
    """Takes the lines in the order of the file."""

    def __init__(self, lines: Lines, accounts: Iterable[Account]) -> None:
        self._lines = lines
        self._accounts = {account.client: account for account in accounts}
        self._seen = {client: bytearray(account.sent) for client, account in self._accounts.items()}
        self._next: dict[tuple[int, int], int] = {}  # by client and connection
        self._skipped: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        self._taken = self._long = self._altered = self._duplicated = self._disordered = 0

    def take(self, line: bytes) -> None:
        self._taken += 1
        number = self._lines.number(line)
        account = self._accounts.get(number.client) if number else None
        if number is None or account is None or not account.has_sent(number):
            self._altered += 1
            return
        self._long += self._lines.size(number.client, number.id) >= LONG
        if self._is_first_copy(number, account):
            self._seen[number.client][number.id] = 1

    def ledger(self) -> Ledger:
        accounts = self._accounts.values()
        sent = sum(account.sent for account in accounts)
        return Ledger(
            sent=sent,
            sent_again=sum(account.transmitted for account in accounts) - sent,
            echoed=sum(account.echoed for account in accounts),
            in_file=self._taken,
            distinct=sum(seen.count(1) for seen in self._seen.values()),
            long=self._long,
            faults=Faults(
                missing=sum(self._seen[account.client].count(0, 0, account.echoed) for account in accounts),
                altered=self._altered,
                duplicated=self._duplicated,
                disordered=self._disordered,
                altered_echoes=sum(len(account.altered) for account in accounts),
                foreign_echoes=sum(len(account.foreign) for account in accounts),
                unasked_echoes=sum(len(account.unasked) for account in accounts),
            ),
        )

    def _is_first_copy(self, number: Number, account: Account) -> bool:
        connection = (number.client, number.connection)
        following = self._next.get(connection, account.connections[number.connection].first)
        if number.id >= following:
            self._skipped[connection].update(range(following, number.id))
            self._next[connection] = number.id + 1
            return True
        if number.id in self._skipped[connection]:
            self._skipped[connection].remove(number.id)
            self._disordered += 1
            return True
        self._duplicated += 1
        return False


def audit(file: Path, lines: Lines, accounts: Iterable[Account], progress: Callable[[int], None]) -> Ledger:
    """Reads the file back. A last line without its newline counts as altered."""
    reader = FileReader(lines, accounts)
    with file.open("rb") as opened:
        for count, line in enumerate(opened, 1):
            reader.take(line)
            if count % REPORT_EVERY == 0:
                progress(count)
    return reader.ledger()
