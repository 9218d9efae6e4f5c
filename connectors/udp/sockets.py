"""UDP sockets, and the kernel's count of dropped datagrams."""

import errno
import os
import socket
import struct
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from walflow import WalflowError
from walflow.net import Address, CannotListen, UrlScheme
from walflow.world import handover, network

UDP: Final = UrlScheme("udp", 0)
SO_MEMINFO: Final = 55  # Linux, not in Python's socket module: nine numbers, the last one what was dropped
_MEMINFO: Final = struct.Struct("=9I")


class CannotSend(WalflowError):
    """The peer's name cannot be looked up, or the system does not let us send there."""


class UdpOptions(BaseModel):
    """Socket options by tremor's names."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    reuse_port: bool = Field(
        default=False, alias="SO_REUSEPORT", description="Whether several processes may listen on one port."
    )
    reuse_address: bool = Field(
        default=False,
        alias="SO_REUSEADDR",
        description="Whether another process may bind the same port; that process then receives all datagrams. "
        "tremor's default is true.",
    )

    def before_bind(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, self.reuse_address)
        if self.reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


UdpSocketOptions = Annotated[UdpOptions, Field(description="Options of the socket, with tremor's names.")]


def place_of(address: Address) -> str:
    """As a handover names it."""
    return f"udp {address}"


def listen_udp(address: Address, options: UdpOptions) -> list[socket.socket]:
    """One socket for each address of the host. With port 0 all get the port that the first one got. If the process
    before has handed on its sockets at this address, those: what waits in them is not lost."""
    place = place_of(address)
    listening = handover().handed(place)
    if listening:
        handover().listens(place, listening)
        return listening
    port = address.port
    try:
        found = network().addresses(address.host, port, socket.SOCK_DGRAM, to_listen=True)
        for family, kind, protocol, _, where in dict.fromkeys(found):
            sock = network().socket(family, kind, protocol)
            listening.append(sock)
            sock.setblocking(False)
            options.before_bind(sock)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((where[0], port, *where[2:]))
            port = port or sock.getsockname()[1]
    except OSError as error:
        for sock in listening:
            sock.close()
        raise CannotListen(f"cannot listen on {address}: {error.strerror or error}") from error
    if address.port:
        handover().listens(place, listening)
    return listening


def connect_udp(address: Address, bind: Address | None, options: UdpOptions) -> socket.socket:
    """Connects to the first of the host's addresses that has a route. Blocks while the name is looked up."""
    problem: OSError | None = None
    try:
        found = network().addresses(*address, socket.SOCK_DGRAM, to_listen=False)
    except OSError as error:
        raise CannotSend(f"cannot send to {address}: {error.strerror or error}") from error
    for family, kind, protocol, _, where in found:
        sock = network().socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            options.before_bind(sock)
            if bind is not None:
                sock.bind(_ours(bind, family))
            sock.connect(where)
        except OSError as error:
            sock.close()
            problem = problem or error
        else:
            return sock
    raise CannotSend(f"cannot send to {address}: {problem and (problem.strerror or problem)}") from problem


def _ours(bind: Address, family: int) -> tuple[int, bytes] | tuple[str, int] | tuple[str, int, int, int]:
    """Raises OSError where the host has no address of that family."""
    for found, _, _, _, where in network().addresses(*bind, socket.SOCK_DGRAM, to_listen=True):
        if found == family:
            return where
    raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))


def buffer_of(sock: socket.socket) -> int:
    """Bytes of the receive buffer. Linux doubles the size that is asked for,
    because it counts its own overhead too."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2


def dropped_by(sock: socket.socket) -> int | None:
    """Datagrams that the kernel has dropped since the socket was made, modulo 2**32. None if this kernel does not
    report it."""
    told = _told(sock)
    return None if told is None else told[-1]


def filled(sock: socket.socket) -> tuple[int, int] | None:
    """Bytes of the receive buffer that are in use, and all that it has; both as the kernel counts, with its own
    overhead. None as above."""
    told = _told(sock)
    return None if told is None else (told[0], told[1])


def _told(sock: socket.socket) -> tuple[int, ...] | None:
    """Linux sk_get_meminfo: what is received and not read, the receive buffer, …, what was dropped."""
    try:
        told = sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, _MEMINFO.size)
    except OSError:
        return None
    return _MEMINFO.unpack(told) if len(told) == _MEMINFO.size else None
