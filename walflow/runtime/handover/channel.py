"""Messages with descriptors, between the two processes of a handover.

A message is a length and a number of descriptors (two u32, little endian), and as many bytes of JSON. The descriptors
come with the first eight bytes.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import msgspec

T = TypeVar("T")

HEAD: Final = struct.Struct("<II")
MOST_DESCRIPTORS: Final = 250  # Linux sends 253 at a time at most
PIECE: Final = 1 << 20
SOON: Final = 0.002  # seconds until it is tried again, where the other end reads slowly


class ChannelClosed(Exception):
    """The other process has ended."""


class Channel(Protocol):
    """One end. A simulation has another one."""

    async def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Returns once it is sent. The other end gets descriptors of its own. Raises ChannelClosed."""
        ...

    async def receive(self) -> tuple[Any, list[int]]:
        """The descriptors are not inherited by a program that this process starts. Raises ChannelClosed."""
        ...

    def close(self) -> None: ...


class SocketChannel:
    """Through a Unix socket."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._sending = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<SocketChannel {self._socket.fileno()}>"

    async def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        loop = asyncio.get_running_loop()
        body = msgspec.json.encode(message)
        head = HEAD.pack(len(body), len(descriptors))
        async with self._sending:
            try:
                while True:
                    try:
                        sent = socket.send_fds(self._socket, [head], descriptors)
                        break
                    except BlockingIOError:
                        await asyncio.sleep(SOON)
                await loop.sock_sendall(self._socket, head[sent:] + body)
            except ConnectionError:
                raise ChannelClosed from None

    async def receive(self) -> tuple[Any, list[int]]:
        head, descriptors = b"", list[int]()
        while len(head) < HEAD.size:
            room = HEAD.size - len(head)
            data, received = await self._soon(partial(self._with_descriptors, room))
            descriptors += received
            head += data
        size, _ = HEAD.unpack(head)
        body = bytearray()
        while len(body) < size:
            room = min(size - len(body), PIECE)
            body += await self._soon(partial(self._some, room))
        return msgspec.json.decode(bytes(body)), descriptors

    def close(self) -> None:
        self._socket.close()

    async def _soon(self, read: Callable[[], T]) -> T:
        """Once there is something to read."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return read()
            except BlockingIOError:
                pass
            except ConnectionError:
                raise ChannelClosed from None
            there = asyncio.Event()
            loop.add_reader(self._socket, there.set)
            try:
                await there.wait()
            finally:
                loop.remove_reader(self._socket)

    def _with_descriptors(self, size: int) -> tuple[bytes, list[int]]:
        data, received, _, _ = socket.recv_fds(self._socket, size, MOST_DESCRIPTORS + 1)
        for descriptor in received:
            os.set_inheritable(descriptor, False)  # uvloop does not close them in a process that it starts
        if not data:
            raise ChannelClosed
        return data, received

    def _some(self, size: int) -> bytes:
        data = self._socket.recv(size)
        if not data:
            raise ChannelClosed
        return data
