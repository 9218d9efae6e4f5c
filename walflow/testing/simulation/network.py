"""A network of hosts: connections by TCP whose bytes take time, wait for room, and are lost with either end, and
datagrams, which may be lost.

net = SimulatedNetwork(loop, dice)
peer = net.host("peer")
with entered(World(disk, clocks, dice, peer)):
    server = await asyncio.start_server(serve, "peer", 80)
net.route("peer").down = True  # no packet passes, and neither end hears of it
net.route("peer").mend()

Behaviour is Linux's, as tcp(7) has it: `close` with unread bytes is a reset; a closed socket answers what comes with
a reset; what was received before a reset can be read. A host without power answers nothing, and what it had does not
exist when it is back.
"""

import errno
import os
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random
from socket import SocketKind
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from walflow.network import Found, Socket
from walflow.testing.simulation.life import Life, now_running

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from walflow.testing.simulation.loop import SimulatedLoop

FIRST_FD: Final = 10
FIRST_PORT: Final = 32768  # that a client gets (Linux ip_local_port_range)
BUFFERS: Final = (2048, 16 << 10, 128 << 10)  # bytes that a kernel holds in one direction
SEGMENT: Final = 64 << 10  # bytes that arrive at once, at most
DATAGRAM: Final = 65507
DATAGRAMS: Final = 256  # that wait to be read
LATENCY: Final = 0.0005  # seconds one way, on the average
SENT_AGAIN: Final = 0.2  # seconds until TCP sends what was lost again (Linux TCP_RTO_MIN)
SYN_AGAIN: Final = 1.0  # seconds until the second SYN
GIVES_UP: Final = 127.0  # seconds until a SYN without answer is an error (tcp_syn_retries 6)
KEEPALIVE: Final = 60.0  # seconds until a socket with SO_KEEPALIVE asks, as walflow sets it
ANY: Final = ("0.0.0.0", "")


class SimulatedRoute:
    """To one host. `latency`: seconds one way, on the average. `drops`: how many of a thousand packets are lost.
    `down`: nothing passes."""

    def __init__(self) -> None:
        self.latency = LATENCY
        self.drops = 0
        self.down = False
        self.waiting: list[Callable[[], None]] = []  # what is tried again when it is mended

    def mend(self) -> None:
        self.latency, self.drops, self.down = LATENCY, 0, False
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call()


class RoutesBetween(NamedTuple):
    """The routes of two hosts."""

    routes: Sequence[SimulatedRoute]

    @property
    def down(self) -> SimulatedRoute | None:
        return next((route for route in self.routes if route.down), None)

    @property
    def latency(self) -> float:
        return max(route.latency for route in self.routes)

    @property
    def drops(self) -> int:
        return max(route.drops for route in self.routes)


class Host:
    """`walflow.network.Network`, as one host has it."""

    def __init__(self, net: "SimulatedNetwork", name: str, address: str) -> None:
        self.net = net
        self.name = name
        self.address = address
        self.ports = FIRST_PORT

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.address}>"

    def socket(self, family: int, kind: int, protocol: int) -> socket.socket:
        if family != socket.AF_INET:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return SimulatedSocket(OpenSocket(self, kind))

    def adopt(self, fd: int) -> Socket:
        return self.net.sockets[fd]

    def duplicate(self, fd: int) -> Socket:
        return self.net.sockets[fd].dup()

    def addresses(self, host: str, port: int, kind: SocketKind, *, to_listen: bool) -> Sequence[Found]:
        address = self.net.address_of(host)
        protocol = socket.IPPROTO_UDP if kind == socket.SOCK_DGRAM else socket.IPPROTO_TCP
        return [(socket.AF_INET, kind, protocol, "", (address, port))]

    def let_go_of(self, owner: object) -> None:
        """A process is gone: the kernel closes what it had open."""
        for one in self._sockets(owner):
            one.let_go()

    def stir(self, owner: object) -> None:
        """It goes on after a stop: its sockets may be ready."""
        for one in self._sockets(owner):
            one.there.changed()

    def cut(self) -> None:
        """Its power goes and comes back. Its sockets are gone. The other ends hear of it when they send or ask."""
        for one in self._sockets(None):
            one.there.vanish()

    def _sockets(self, owner: object) -> "list[SimulatedSocket]":
        return [one for one in self.net.sockets.values() if one.there.host is self and owner in (None, one.owner)]


class SimulatedNetwork:
    """Hosts by name, and their sockets by descriptor. The loop's selector asks `poll`."""

    def __init__(self, loop: "SimulatedLoop", dice: Random) -> None:
        self.loop = loop
        self.dice = dice
        self.sockets: dict[int, SimulatedSocket] = {}
        self.hosts: dict[str, Host] = {}
        self.bound: dict[tuple[int, str, int], list[OpenSocket]] = {}  # by kind, address, and port
        self._routes: dict[str, SimulatedRoute] = {}
        loop.attach(self)

    def host(self, name: str) -> Host:
        """The one of this name, which is made."""
        if name not in self.hosts:
            self.hosts[name] = Host(self, name, f"10.0.0.{len(self.hosts) + 1}")
        return self.hosts[name]

    def route(self, name: str) -> SimulatedRoute:
        return self._routes.setdefault(self.address_of(name), SimulatedRoute())

    def between(self, one: Host, other: Host | None) -> "RoutesBetween":
        """Both routes count: that of the one, and that of the other."""
        return RoutesBetween([self.route(host.name) for host in (one, other) if host is not None])

    def mend(self) -> None:
        for route in self._routes.values():
            route.mend()

    def reset(self, name: str) -> None:
        """Every connection of this host ends, as a firewall ends them that has forgotten them."""
        for one in [*self.sockets.values()]:
            if one.there.host.name == name:
                one.there.cut_off()

    def close(self) -> None:
        self.sockets.clear()

    def address_of(self, name: str) -> str:
        if name in ANY:
            return ANY[0]
        if name in self.hosts:
            return self.hosts[name].address
        if any(host.address == name for host in self.hosts.values()):
            return name
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    def at(self, address: str) -> Host | None:
        return next((host for host in self.hosts.values() if host.address == address), None)

    def descriptor(self) -> int:
        fd = FIRST_FD
        while fd in self.sockets:
            fd += 1
        return fd

    def poll(self, fd: int) -> int:
        found = self.sockets.get(fd)
        return 0 if found is None else found.poll()

    def who(self, kind: int, address: str, port: int) -> "OpenSocket | None":
        """Who has bound it. Of several the kernel draws one."""
        found = self.bound.get((kind, address, port)) or self.bound.get((kind, ANY[0], port)) or []
        found = [one for one in found if one.host.address == address]
        return self.dice.choice(found) if found else None

    def later(self, link: RoutesBetween, call: Callable[[], None], *, waits: bool = True) -> None:
        """After a packet's way. `waits`: while it is down it is sent again and again; otherwise it is lost."""
        down = link.down
        if down is not None:
            if waits:
                down.waiting.append(lambda: self.later(link, call))
            return
        takes = self.dice.expovariate(1 / link.latency)
        if self.dice.randrange(1000) < link.drops:
            if not waits:
                return
            takes += SENT_AGAIN
        self.loop.call_outside(takes, call)


class _Way:
    """The bytes from one end of a connection to the other. `waiting`: in the sender's kernel; `arrived`: in the
    receiver's. `ended`: nothing follows what waits; `over`: and all of it has come."""

    def __init__(self, net: SimulatedNetwork, route: RoutesBetween, room: int) -> None:
        self.waiting = bytearray()
        self.arrived = bytearray()
        self.ended = self.over = False
        self.sender: OpenSocket | None = None  # None: it is gone
        self.receiver: OpenSocket | None = None
        self.room = room
        self._net = net
        self._route = route
        self._moving = False

    def free(self) -> int:
        return self.room - len(self.waiting)

    def move(self) -> None:
        if self._moving or not (self.waiting or (self.ended and not self.over)):
            return
        if self.waiting and self.receiver is not None and len(self.arrived) >= self.room:
            return  # until it is read
        self._moving = True
        self._net.later(self._route, self._land)

    def _land(self) -> None:
        self._moving = False
        receiver = self.receiver
        if receiver is None:
            if self.sender is not None and self.waiting:
                self._net.later(self._route, self.sender.reset)
            return
        if self.waiting:
            count = min(len(self.waiting), self.room - len(self.arrived), self._net.dice.randint(1, SEGMENT))
            self.arrived += self.waiting[:count]
            del self.waiting[:count]
        elif self.ended:
            self.over = True
        receiver.changed()
        if self.sender is not None:
            self.sender.changed()
        self.move()


class OpenSocket:
    """As a kernel has it: it is there for as long as a process has a descriptor of it, or a connection waits to be
    accepted."""

    def __init__(self, host: Host, kind: int) -> None:
        self.host = host
        self.kind = kind
        self.error = 0
        self.alive = True
        self.descriptors: list[SimulatedSocket] = []
        self.options: dict[tuple[int, int], int] = {}
        self.name: tuple[str, int] | None = None
        self.peer: tuple[str, int] | None = None
        self.queue: deque[OpenSocket] = deque()  # connections that wait to be accepted
        self.datagrams: deque[tuple[bytes, tuple[str, int]]] = deque()
        self.backlog: int | None = None  # None: it does not listen
        self.reads: _Way | None = None
        self.writes: _Way | None = None
        self.connected = False
        self.shut = False
        self._net = host.net

    def __repr__(self) -> str:
        return f"<OpenSocket of {self.host.name}, {self.name} to {self.peer}>"

    # a server's

    def bind(self, address: Any) -> None:
        where, port = self._net.address_of(address[0]), address[1] or self._free_port()
        there = self._net.bound.setdefault((self.kind, where, port), [])
        shares = (socket.SOL_SOCKET, socket.SO_REUSEPORT)
        mine = [one for one in there if one.host is self.host]
        if mine and not all(one.options.get(shares) for one in (self, *mine)):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        there.append(self)
        self.name = where, port

    # a client's

    def connect(self, address: Any) -> None:
        where, port = self._net.address_of(address[0]), address[1]
        if self.name is None:
            self.name = self.host.address, self._free_port()
            if self.kind == socket.SOCK_DGRAM:
                self._net.bound.setdefault((self.kind, *self.name), []).append(self)
        self.peer = where, port
        if self.kind == socket.SOCK_DGRAM:
            self.connected = True
            return
        self._syn(self._net.loop.time())
        raise BlockingIOError(errno.EINPROGRESS, os.strerror(errno.EINPROGRESS))

    def _syn(self, began: float) -> None:
        """Sends the first packet. One that is lost, or finds no room, is sent again."""
        assert self.peer is not None
        if not self.alive:
            return
        if self._net.loop.time() - began > GIVES_UP:
            self._fails(errno.ETIMEDOUT)
            return
        route, there = self._route(), self._net.at(self.peer[0])
        if route.down is not None or there is None:
            self._net.loop.call_outside(SYN_AGAIN, lambda: self._syn(began))
        else:
            self._net.later(route, lambda: self._arrives(there, began), waits=False)

    def _arrives(self, there: Host, began: float) -> None:
        assert self.peer is not None
        if not self.alive:
            return
        listener = self._net.who(self.kind, *self.peer)
        if listener is None or listener.backlog is None:
            self._net.later(self._route(), lambda: self._fails(errno.ECONNREFUSED))
            return
        if len(listener.queue) >= listener.backlog:
            self._net.loop.call_outside(SYN_AGAIN, lambda: self._syn(began))
            return
        made = OpenSocket(there, self.kind)
        made.name, made.peer, made.connected = self.peer, self.name, True
        made.options.update(listener.options)
        room = self._net.dice.choice(BUFFERS)
        for sender, receiver in ((self, made), (made, self)):
            way = _Way(self._net, self._route(), room)
            way.sender, way.receiver = sender, receiver
            sender.writes, receiver.reads = way, way
        listener.queue.append(made)
        listener.changed()
        self._net.later(self._route(), self._has_connected)

    def _has_connected(self) -> None:
        if self.alive and not self.error:
            self.connected = True
            self.changed()

    def _fails(self, error: int) -> None:
        if self.alive:
            self.error = error
            self.changed()

    # bytes

    def send(self, data: "ReadableBuffer") -> int:
        self.raise_error()
        way = self.writes
        if way is None or self.shut:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        given = memoryview(data).cast("B")
        count = min(way.free(), len(given))
        if given and count <= 0:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        way.waiting += given[:count]
        way.move()
        return count

    def recv(self, bufsize: int) -> bytes:
        way = self.reads
        if way is not None and way.arrived:
            data = bytes(way.arrived[:bufsize])
            del way.arrived[:bufsize]
            way.move()
            return data
        self.raise_error()
        if way is None or way.over:
            return b""
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def shut_writing(self) -> None:
        if self.writes is not None:
            self.shut = self.writes.ended = True
            self.writes.move()

    # datagrams

    def next_datagram(self, bufsize: int) -> tuple[bytes, Any]:
        if not self.datagrams:
            self.raise_error()
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        data, sender = self.datagrams.popleft()
        return data[:bufsize], sender

    def send_datagram(self, data: bytes, to: tuple[str, int] | None) -> int:
        if to is None:
            raise OSError(errno.EDESTADDRREQ, os.strerror(errno.EDESTADDRREQ))
        if len(data) > DATAGRAM:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        self.raise_error()
        where, name = (self._net.address_of(to[0]), to[1]), self.name or (self.host.address, 0)

        def lands() -> None:
            there, host = self._net.who(socket.SOCK_DGRAM, *where), self._net.at(where[0])
            if there is not None and len(there.datagrams) < DATAGRAMS:
                there.datagrams.append((data, name))
                there.changed()
            elif there is None and host is not None and self.connected:
                self._fails(errno.ECONNREFUSED)  # the host said so, by ICMP

        self._net.later(self._net.between(self.host, self._net.at(where[0])), lands, waits=False)
        return len(data)

    # its end

    def end(self) -> None:
        """Nobody has a descriptor of it."""
        if not self.alive:
            return
        unread = self.reads is not None and bool(self.reads.arrived)
        self._leave()
        for waiting in self.queue:
            waiting.end()
        reads, writes = self.reads, self.writes
        if reads is None or writes is None:
            return
        reads.receiver = None
        other = writes.receiver
        if unread and other is not None:
            writes.waiting.clear()
            self._net.later(self._route(), other.reset)
        else:
            writes.ended = True
            writes.move()
            reads.move()  # what still comes is answered by a reset

    def vanish(self) -> None:
        if not self.alive:
            return
        self._leave()
        for waiting in self.queue:
            waiting.vanish()
        if self.reads is None or self.writes is None:
            return
        other = self.writes.receiver
        self.reads.receiver = self.writes.sender = None
        self.writes.waiting.clear()
        if other is not None:
            other._asks_later()

    def _asks_later(self) -> None:
        """Whether the other end is there: with what waits to be sent, or because keepalive asks."""
        if self.writes is not None and self.writes.waiting:
            self.writes.move()
        elif self.options.get((socket.SOL_SOCKET, socket.SO_KEEPALIVE)):
            self._net.loop.call_outside(KEEPALIVE, lambda: self._net.later(self._route(), self.reset))

    def reset(self) -> None:
        if not self.alive or (self.reads is None and self.writes is None):
            return
        ended = self.reads is not None and self.reads.over
        self._fails(errno.EPIPE if ended else errno.ECONNRESET)  # Linux: tcp_reset, in CLOSE_WAIT and before
        for way in (self.reads, self.writes):
            if way is not None:
                way.waiting.clear()
        if self.reads is not None:
            self.reads.over = True
        self.writes = None

    def cut_off(self) -> None:
        """Both ends are reset."""
        other = self.writes.receiver if self.writes is not None else None
        if other is not None:
            other.reset()
            self.reset()

    def _leave(self) -> None:
        self.alive = False
        for one in [*self.descriptors]:
            one.forget()
        if self.name is not None:
            there = self._net.bound.get((self.kind, *self.name), [])
            if self in there:
                there.remove(self)

    # the selector's

    def poll(self) -> int:
        if self.kind == socket.SOCK_DGRAM:
            return selectors.EVENT_WRITE | (selectors.EVENT_READ if self.datagrams or self.error else 0)
        if self.error:
            return selectors.EVENT_READ | selectors.EVENT_WRITE
        if self.backlog is not None:
            return selectors.EVENT_READ if self.queue else 0
        if not self.connected:
            return 0
        reads, writes = self.reads, self.writes
        readable = reads is None or bool(reads.arrived) or reads.over
        writable = writes is None or writes.free() * 3 >= writes.room
        return (selectors.EVENT_READ if readable else 0) | (selectors.EVENT_WRITE if writable else 0)

    def changed(self) -> None:
        for one in self.descriptors:
            one.stir()

    def raise_error(self) -> None:
        error, self.error = self.error, 0
        if error:
            raise OSError(error, os.strerror(error))

    def _route(self) -> RoutesBetween:
        return self._net.between(self.host, self._net.at(self.peer[0]) if self.peer is not None else None)

    def _free_port(self) -> int:
        self.host.ports += 1
        return self.host.ports


class SimulatedSocket(socket.socket):
    """A descriptor: what `asyncio` and walflow call of a `socket.socket`. None of it reaches the system. `there`: the
    open socket. `owner`: the process that has it."""

    def __init__(self, there: OpenSocket) -> None:  # not the one above: it would make a real one
        self._closed, self._io_refs = False, 0  # as the one above has them
        self.there = there
        self.owner: Life | None = now_running()
        self._net = there.host.net
        self._fd = self._net.descriptor()
        self._net.sockets[self._fd] = self
        there.descriptors.append(self)

    def __repr__(self) -> str:
        return f"<SimulatedSocket {self._fd}, {self.there!r}>"

    def __del__(self) -> None: ...

    # what it is

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET

    @property
    def type(self) -> socket.SocketKind:
        return socket.SocketKind(self.there.kind)

    @property
    def proto(self) -> int:
        return 0

    @property
    def open(self) -> bool:
        return self._net.sockets.get(self._fd) is self

    def fileno(self) -> int:
        return self._fd if self.open else -1

    def setblocking(self, flag: bool) -> None: ...

    def settimeout(self, value: float | None) -> None: ...

    def gettimeout(self) -> float | None:
        return 0.0

    def setsockopt(self, level: int, name: int, value: Any, length: int = 0) -> None:
        self.there.options[level, name] = value

    def getsockopt(self, level: int, name: int, length: int = 0) -> Any:
        if (level, name) == (socket.SOL_SOCKET, socket.SO_ERROR):
            error, self.there.error = self.there.error, 0
            return error
        if length:
            raise OSError(errno.ENOPROTOOPT, os.strerror(errno.ENOPROTOOPT))
        return self.there.options.get((level, name), 0)

    def getsockname(self) -> tuple[str, int]:
        self._check()
        return self.there.name or (ANY[0], 0)

    def getpeername(self) -> tuple[str, int]:
        self._check()
        if self.there.peer is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self.there.peer

    # its calls

    def bind(self, address: Any) -> None:
        self._check()
        self.there.bind(address)

    def listen(self, backlog: int = 128) -> None:
        self._check()
        self.there.backlog = max(backlog, 1)

    def accept(self) -> tuple[socket.socket, Any]:
        self._check()
        queue = self.there.queue
        while queue:
            made = queue.popleft()
            if made.alive:
                return SimulatedSocket(made), made.peer
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def connect(self, address: Any) -> None:
        self._check()
        self.there.connect(address)

    def send(self, data: "ReadableBuffer", flags: int = 0) -> int:
        self._check()
        if self.there.kind == socket.SOCK_DGRAM:
            return self.there.send_datagram(bytes(data), self.there.peer)
        return self.there.send(data)

    def sendmsg(self, buffers: "Iterable[ReadableBuffer]", *_: Any) -> int:
        return self.send(b"".join(buffers))

    def sendto(self, data: "ReadableBuffer", *rest: Any) -> int:
        self._check()
        return self.there.send_datagram(bytes(data), rest[-1])

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        if self.there.kind == socket.SOCK_DGRAM:
            return self.recvfrom(bufsize)[0]
        self._check()
        return self.there.recv(bufsize)

    def recv_into(self, buffer: "WriteableBuffer", nbytes: int = 0, flags: int = 0) -> int:
        into = memoryview(buffer).cast("B")
        data = self.recv(nbytes or len(into))
        into[: len(data)] = data
        return len(data)

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Any]:
        self._check()
        return self.there.next_datagram(bufsize)

    def shutdown(self, how: int) -> None:
        self._check()
        if how in (socket.SHUT_WR, socket.SHUT_RDWR):
            self.there.shut_writing()

    def dup(self) -> "SimulatedSocket":
        self._check()
        return SimulatedSocket(self.there)

    def handed_to(self, owner: Life) -> int:
        """Another descriptor of it, which that process has."""
        self._check()
        made = SimulatedSocket(self.there)
        made.owner = owner
        return made.fileno()

    def close(self) -> None:
        if self.owner is None or self.owner.alive:
            self.let_go()

    def let_go(self) -> None:
        """As `close`, also of a process that was killed."""
        if not self.open:
            return
        if self.there.descriptors == [self]:
            self.there.end()
        else:
            self.forget()

    def forget(self) -> None:
        del self._net.sockets[self._fd]
        self.there.descriptors.remove(self)
        self._net.loop.forget(self._fd, of_process=self.owner is not None)

    # the selector's

    def poll(self) -> int:
        return 0 if self.owner is not None and self.owner.stopped is not None else self.there.poll()

    def stir(self) -> None:
        self._net.loop.stir(self._fd)

    def _check(self) -> None:
        if self.owner is not None:
            self.owner.check()
        if not self.open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
