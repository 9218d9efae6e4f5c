"""Messages with descriptors, between the two processes of a handover.

A message is a length and a number of descriptors (two u32, little endian), and as many bytes of JSON. The descriptors
come with the first eight bytes.
"""

import asyncio
import socket
import struct
from typing import Any, Final

import msgspec

HEAD: Final = struct.Struct("<II")
MOST_DESCRIPTORS: Final = 250  # Linux sends 253 at a time at most
SOON: Final = 0.002  # seconds until it is tried again, where the other end reads slowly


class ChannelClosed(Exception):
    """The other process has ended."""


def receive(channel: socket.socket) -> tuple[Any, list[int]]:
    """Waits for a message. Raises ChannelClosed."""
    head, descriptors = b"", list[int]()
    try:
        while len(head) < HEAD.size:
            data, received, _, _ = socket.recv_fds(channel, HEAD.size - len(head), MOST_DESCRIPTORS + 1)
            descriptors += received
            if not data:
                raise ChannelClosed
            head += data
        size, _ = HEAD.unpack(head)
        body = bytearray()
        while len(body) < size:
            data = channel.recv(min(size - len(body), 1 << 20))
            if not data:
                raise ChannelClosed
            body += data
    except ConnectionError:
        raise ChannelClosed from None
    return msgspec.json.decode(bytes(body)), descriptors


def send(channel: socket.socket, message: object) -> None:
    """Waits until it is sent. Raises ChannelClosed."""
    body = msgspec.json.encode(message)
    try:
        channel.sendall(HEAD.pack(len(body), 0) + body)
    except ConnectionError:
        raise ChannelClosed from None


async def send_soon(channel: socket.socket, message: object, descriptors: list[int] | None = None) -> None:
    """The same on a loop, with descriptors. Raises ChannelClosed."""
    loop = asyncio.get_running_loop()
    body = msgspec.json.encode(message)
    head = HEAD.pack(len(body), len(descriptors or ()))
    try:
        while True:
            try:
                sent = socket.send_fds(channel, [head], descriptors or ())
                break
            except BlockingIOError:
                await asyncio.sleep(SOON)
        await loop.sock_sendall(channel, head[sent:] + body)
    except ConnectionError:
        raise ChannelClosed from None


async def receive_soon(channel: socket.socket) -> Any:
    """The same on a loop, without descriptors. Raises ChannelClosed."""
    size, _ = HEAD.unpack(await _exactly(channel, HEAD.size))
    return msgspec.json.decode(await _exactly(channel, size))


async def _exactly(channel: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    found = bytearray()
    try:
        while len(found) < size:
            data = await loop.sock_recv(channel, size - len(found))
            if not data:
                raise ChannelClosed
            found += data
    except ConnectionError:
        raise ChannelClosed from None
    return bytes(found)
