"""What one process of a daemon hands to the next one: locks, listening sockets, and connections.

The one before keeps all of it open until the next one serves, so that it can go on if that fails.
"""

import os
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol
from weakref import ref

Identity = tuple[int, int]

STALE: Final = -1  # the descriptor of a closed socket


class HandedLocks:
    """flock belongs to the open file, not to a descriptor or a process: who is handed the descriptor has the lock."""

    def __init__(self) -> None:
        self._held: dict[int, Identity] = {}
        self._handed: dict[Identity, int] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._held)} held, {len(self._handed)} from the process before>"

    def took(self, fd: int) -> None:
        self._held[fd] = self.identity(fd)

    def closed(self, fd: int) -> None:
        self._held.pop(fd, None)

    def has(self, fd: int) -> bool:
        return self.identity(fd) in self._handed

    def take(self, fd: int) -> bool:
        """Whether the process before has handed on the lock of this file. Then `fd` is the open file that has it."""
        handed = self._handed.get(self.identity(fd))
        if handed is None:
            return False
        self.become(fd, handed)
        return True

    def hand_on(self) -> list[int]:
        """New descriptors of all that are held; the caller closes them."""
        return [self.duplicate(fd) for fd in list(self._held)]  # threads lock, too

    def receive(self, descriptors: Sequence[int]) -> None:
        """Instead of those received before."""
        self.drop()
        self._handed = {self.identity(fd): fd for fd in descriptors}

    def drop(self) -> None:
        """What nobody has taken is not locked any more."""
        handed, self._handed = self._handed, {}
        for fd in handed.values():
            self.close(fd)

    # the system's: a simulated disk has its own

    def identity(self, fd: int) -> Identity:
        found = os.fstat(fd)
        return found.st_dev, found.st_ino

    def duplicate(self, fd: int) -> int:
        return os.dup(fd)

    def become(self, fd: int, other: int) -> None:
        """`fd` is another descriptor of that open file from now on."""
        os.dup2(other, fd, inheritable=False)

    def close(self, fd: int) -> None:
        os.close(fd)


class _NoLocks(HandedLocks):
    """Of a disk of which nothing is handed on."""

    def took(self, fd: int) -> None: ...
    def closed(self, fd: int) -> None: ...

    def take(self, fd: int) -> bool:
        return False


NO_LOCKS: Final[HandedLocks] = _NoLocks()


class HandedConnection(NamedTuple):
    """`where`: the kind of its server and the address. `peer`: as accept(2) gives it. `came`: bytes that are no event
    yet. `secure`: it is under TLS, which the process before decrypts."""

    where: str
    socket: socket.socket
    peer: object
    came: bytes
    secure: bool = False


Taker = Callable[[HandedConnection], None]


class Relay(Protocol):
    """It passes bytes on between a client and the next process."""

    def finish(self) -> None:
        """The client's last bytes were passed on. What the next process answers is still passed on."""
        ...

    def abort(self) -> None: ...


class Handover:
    """Of one process. `leaving`: the next one is ready, and this one ends. `watched`: the process before has not
    ended, and may go on; until it has, nothing is done on a disk that it could not go on with."""

    def __init__(self, locks: HandedLocks | None = None) -> None:
        self.leaving = False
        self.watched = False
        self.locks = locks or HandedLocks()
        self.on_connection: Callable[[HandedConnection], None] | None = None  # hands it on at once
        self.going: list[HandedConnection] = []  # until then
        self.owing: frozenset[str] = (
            frozenset()
        )  # sinks for which events wait, as FLOW::CONNECTOR: clients still get answers
        self.wanted: set[str] = set()  # addresses of the process before that were asked for
        self.begins: Mapping[str, int | None] = {}  # of new sinks of logs, the first position; None: the next one
        self.tells: dict[str, list[int]] = {}  # of an address, what the next process has to know
        self.told: dict[str, list[int]] = {}  # by the process before, about the sockets that it has handed on
        self.notes: list[str] = []  # for who has asked for it, once this process serves
        self.relays: set[Relay] = set()
        self._listening: defaultdict[str, list[list[ref[socket.socket]]]] = defaultdict(list)
        self._handed: Mapping[str, Sequence[Sequence[socket.socket]]] = {}
        self._given: defaultdict[str, int] = defaultdict(int)
        self._takers: dict[str, Taker] = {}
        self._came: list[HandedConnection] = []  # for servers that do not listen yet

    def __repr__(self) -> str:
        return f"<Handover {len(self._listening)} addresses, {len(self._handed)} from the process before>"

    # sockets

    def listens(self, where: str, sockets: Sequence[socket.socket]) -> None:
        """These are bound at this address."""
        groups = self._listening[where]
        groups[:] = [group for group in groups if _open(group)]
        groups.append([ref(sock) for sock in sockets])

    def handed(self, where: str) -> list[socket.socket]:
        """The sockets that the process before has at this address, as new objects; [] if there are none. Several
        servers with one address (SO_REUSEPORT) get theirs in turn."""
        groups = self._handed.get(where, ())
        if not groups:
            return []
        self.wanted.add(where)
        group = groups[self._given[where] % len(groups)]
        self._given[where] += 1
        return [sock.dup() for sock in group]

    def hand_on(self) -> list[tuple[str, list[socket.socket]]]:
        """New objects of all that are bound; the caller closes them."""
        return [
            (where, [sock.dup() for sock in _open(group)])
            for where, groups in self._listening.items()
            for group in groups
            if _open(group)
        ]

    def receive(self, sockets: Sequence[tuple[str, Sequence[socket.socket]]], locks: Sequence[int]) -> None:
        """Instead of what was received before."""
        self.drop()
        handed: defaultdict[str, list[Sequence[socket.socket]]] = defaultdict(list)
        for where, group in sockets:
            handed[where].append(group)
        self._handed = handed
        self.locks.receive(locks)

    def drop(self) -> None:
        """Closes what nobody has taken."""
        handed, self._handed = self._handed, {}
        for groups in handed.values():
            for group in groups:
                for sock in group:
                    sock.close()
        self._given.clear()
        self.locks.drop()
        came, self._came = self._came, []
        for connection in came:
            connection.socket.close()

    # connections

    def hand(self, connection: HandedConnection) -> None:
        """A connection goes to the next process. Its socket is closed here afterwards."""
        if self.on_connection is None:
            self.going.append(connection)
        else:
            self.on_connection(connection)

    def takes(self, where: str, taker: Taker) -> None:
        """Connections of this server come to `taker`, as they came."""
        self._takers[where] = taker
        mine = [each for each in self._came if each.where == where]
        self._came = [each for each in self._came if each.where != where]
        for connection in mine:
            taker(connection)

    def takes_no_more(self, where: str) -> None:
        self._takers.pop(where, None)

    def arrived(self, connection: HandedConnection) -> None:
        """From the process before."""
        taker = self._takers.get(connection.where)
        if taker is None:
            self._came.append(connection)
        else:
            taker(connection)


OWN: Final = Handover()  # of this process


def _open(group: Sequence[ref[socket.socket]]) -> list[socket.socket]:
    found = [one() for one in group]
    return [sock for sock in found if sock is not None and sock.fileno() != STALE]
