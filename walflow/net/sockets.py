"""Sockets as listeners and clients want them, made ready before anything waits on them."""

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

IDLE_SECONDS = 60  # before the kernel asks a silent peer whether it is still there
PROBE_SECONDS = 10
PROBES = 3


class CannotListen(WalflowError):
    """The address or path is not to be had now; it may be later."""


class SocketOptions(BaseModel):
    """tremor's names."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    reuse_port: bool = Field(default=False, alias="SO_REUSEPORT", description="Several processes share one port.")
    reuse_address: bool = Field(default=True, alias="SO_REUSEADDR", description="A port in TIME_WAIT may be bound.")
    no_delay: bool = Field(default=True, alias="TCP_NODELAY", description="Small writes leave at once.")

    def before_bind(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, self.reuse_address)
        if self.reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)

    def connected(self, sock: socket.socket) -> None:
        """A peer whose machine is gone says nothing, and without keepalive nobody ever asks it."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, self.no_delay)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)


def listen_tcp(address: Address, backlog: int, options: SocketOptions) -> list[socket.socket]:
    """One socket for each address the host has. With port 0 all get the port that the first one got."""
    port = address.port
    listening: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, where in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
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
    return listening


class UnixListener:
    """A socket file of ours. A file that a dead process left is replaced; one that somebody answers at, or that is
    no socket, is not touched."""

    def __init__(self, path: str, permissions: int, backlog: int) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        try:
            with _alone_in(os.path.dirname(path) or "."):
                self._clear()
                # bind makes the file with the mode of the socket, so it is at no moment open to more than it should
                os.fchmod(self.socket.fileno(), permissions)
                self.socket.bind(path)
            os.chmod(path, permissions)  # what the umask took away
            self.socket.listen(backlog)
            self._made = _identity(path)
        except OSError as error:
            self.socket.close()
            raise CannotListen(f"cannot listen on {path}: {error.strerror or error}") from error
        except CannotListen:
            self.socket.close()
            raise

    def remove(self) -> None:
        """The file, unless it is another's by now."""
        self.socket.close()
        if _identity(self.path) == self._made:
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
def _alone_in(directory: str) -> Generator[None]:
    """Two that find the same dead socket file must not both replace it: the second would remove the first's."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise OSError(errno.EAGAIN, "another process is making a socket in this directory") from error
    finally:
        os.close(fd)
