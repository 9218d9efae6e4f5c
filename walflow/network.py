"""Sockets and names of hosts come from a `Network`, so that a simulated one can stand in for the system's."""

import os
import socket
from collections.abc import Sequence
from socket import SocketKind
from typing import Protocol

Socket = socket.socket
Where = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
Found = tuple[socket.AddressFamily, SocketKind, int, str, Where]  # as socket.getaddrinfo has them


class Network(Protocol):
    def socket(self, family: int, kind: int, protocol: int) -> socket.socket: ...

    def addresses(self, host: str, port: int, kind: SocketKind, *, to_listen: bool) -> Sequence[Found]:
        """Raises OSError where the name is not known. Blocks while it is looked up."""
        ...

    def adopt(self, fd: int) -> Socket:
        """The socket of a descriptor that another process has handed on."""
        ...

    def duplicate(self, fd: int) -> Socket:
        """Another descriptor of this open socket."""
        ...


class SystemNetwork:
    def socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        return socket.socket(family, kind, protocol)

    def addresses(self, host: str, port: int, kind: SocketKind, *, to_listen: bool) -> Sequence[Found]:
        return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_PASSIVE if to_listen else 0)

    def adopt(self, fd: int) -> Socket:
        return socket.socket(fileno=fd)

    def duplicate(self, fd: int) -> Socket:
        return socket.socket(fileno=os.dup(fd))
