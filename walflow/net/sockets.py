"""Sockets for listeners and clients, with their options set."""

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Generator
from contextlib import contextmanager

from pydantic import BaseModel, ConfigDict, Field

from walflow.errors import WalflowError
from walflow.net.address import Address
from walflow.world import handover, network

IDLE_SECONDS = 60  # before the kernel asks a silent peer whether it is still there
PROBE_SECONDS = 10
PROBES = 3


class CannotListen(WalflowError):
    """The address or path cannot be used now; it may be free later."""


class SocketOptions(BaseModel):
    """tremor's names."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    reuse_port: bool = Field(
        default=False, alias="SO_REUSEPORT", description="Whether several processes may listen on one port."
    )
    reuse_address: bool = Field(
        default=True, alias="SO_REUSEADDR", description="Whether a port in TIME_WAIT may be bound."
    )
    no_delay: bool = Field(default=True, alias="TCP_NODELAY", description="Whether small writes are sent at once.")

    def before_bind(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, self.reuse_address)
        if self.reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)

    def connected(self, sock: socket.socket) -> None:
        """Turns keepalive on: otherwise the kernel never notices a peer whose machine is down."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, self.no_delay)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)


def listen_tcp(address: Address, backlog: int, options: SocketOptions) -> list[socket.socket]:
    """One socket for each address the host has. With port 0 all get the port that the first one got. If the process
    before has handed on its sockets at this address, those."""
    place = f"tcp {address}"
    listening = handover().handed(place)
    if listening:
        handover().listens(place, listening)
        return listening
    port = address.port
    try:
        found = network().addresses(address.host, port, socket.SOCK_STREAM, to_listen=True)
        for family, kind, protocol, _, where in dict.fromkeys(found):
            sock = network().socket(family, kind, protocol)
            listening.append(sock)
            sock.setblocking(False)
            options.before_bind(sock)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((where[0], port, *where[2:]))
            port = port or sock.getsockname()[1]
            sock.listen(backlog)
    except OSError as error:
        for sock in listening:
            sock.close()
        raise CannotListen(f"cannot listen on {address}: {error.strerror or error}") from error
    if address.port:  # another one is drawn at each start
        handover().listens(place, listening)
    return listening


def socket_of(found: tuple[int, int, int, str, object]) -> socket.socket:
    """For one of the addresses that a host has, as getaddrinfo gives it: for libraries that connect by themselves."""
    return network().socket(*found[:3])


class UnixListener:
    """A socket file of walflow. A file that a dead process left is replaced. If a process answers on it, or it is no
    socket, it is not touched."""

    def __init__(self, path: str, permissions: int, backlog: int) -> None:
        self.path = path
        self._permissions = permissions
        self._backlog = backlog
        handed = handover().handed(self._where)
        there = _identity(path) if handed else None
        self.socket, self._made = self._listen() if there is None else (handed[0], there)
        handover().listens(self._where, [self.socket])

    @property
    def _where(self) -> str:
        return f"unix {self.path}"

    def is_there(self) -> bool:
        """Whether the file is still the one that was made; otherwise no client finds the socket."""
        return _identity(self.path) == self._made

    def renew(self) -> socket.socket:
        """Makes the file again, with a new socket. Returns the one before: clients may wait to be accepted there.
        Raises CannotListen; then nothing has changed."""
        before = self.socket
        self.socket, self._made = self._listen()
        handover().listens(self._where, [self.socket])
        return before

    def _listen(self) -> tuple[socket.socket, tuple[int, int] | None]:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            with _alone_at(self.path):
                self._clear()
                # bind makes the file with the mode of the socket, so it is at no moment open to more than it should
                os.fchmod(sock.fileno(), self._permissions)
                sock.bind(self.path)
                os.chmod(self.path, self._permissions)  # what the umask took away
                sock.listen(self._backlog)
                return sock, _identity(self.path)
        except OSError as error:
            sock.close()
            raise CannotListen(f"cannot listen on {self.path}: {error.strerror or error}") from error
        except CannotListen:
            sock.close()
            raise

    def remove(self) -> None:
        """Removes the file, unless another process has replaced it, or goes on with it."""
        self.socket.close()
        if not handover().leaving and _identity(self.path) == self._made:
            os.unlink(self.path)

    def _clear(self) -> None:
        try:
            mode = os.lstat(self.path).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise CannotListen(f"cannot listen on {self.path}: a file that is no socket has this name")
        if _answers(self.path):
            raise CannotListen(f"cannot listen on {self.path}: another process listens there")
        os.unlink(self.path)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # its backlog is full: there is one
            return True
    return True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _alone_at(path: str) -> Generator[None]:
    """Locks the path: two processes that find the same dead socket file must not both replace it, because the second
    would remove the first's. The lock is a separate file that no other user can open. Any user who may read the
    directory could hold a lock on that."""
    lock = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.lock")
    fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
            raise OSError(errno.EACCES, f"{lock} is not ours alone; remove it")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(errno.EAGAIN, "another process is making it") from error
        if _identity(lock) != (found.st_dev, found.st_ino):  # its holder has removed it meanwhile, and is done
            raise OSError(errno.EAGAIN, "another process has just made it")
        try:
            yield
        finally:
            os.unlink(lock)
    finally:
        os.close(fd)
