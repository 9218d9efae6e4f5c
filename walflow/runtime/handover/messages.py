"""What two processes say to each other at a reload. They may be of different versions: each passes over what it does
not know, and what is new has a default. What each release says is in `tests/system/handover`."""

from typing import Any, Literal, TypeVar

import msgspec

from walflow.runtime.handover.channel import Channel
from walflow.runtime.handover.reload import Reload


class NotUnderstood(Exception):
    """What the other process has said. It is one of another version, or not walflow at all."""


class Description(msgspec.Struct):
    """What the process before says of itself: documents of the admin interface, and connectors that are not ready."""

    nodes: Any
    status: Any
    lacking: list[str]


class FirstMessage(msgspec.Struct):
    """By the process before, first."""

    reload: Reload
    running: Description


class DescriptorMessage(msgspec.Struct, omit_defaults=True):
    """By the process before. Its descriptors are those of the sockets, then those of the locks. `sockets`: where they
    listen, and how many there are. `locks`: how many. `all`: no more come; `tells` says of an address what the next
    process has to know."""

    sockets: list[tuple[str, int]] = []
    locks: int = 0
    all: bool = False
    tells: dict[str, list[int]] = {}


class ConnectionMessage(msgspec.Struct, array_like=True):
    """`came`: bytes that are no event yet, in Base64."""

    where: str
    peer: Any
    came: str
    secure: bool = False


class ConnectionMessages(msgspec.Struct, omit_defaults=True):
    """By the process before, with a descriptor each. `begin`: it has stopped, and it is the next one's turn."""

    connections: list[ConnectionMessage] = []
    begin: Reload | None = None


class Said(msgspec.Struct):
    """By the next process."""

    what: Literal["checked", "refused", "alive", "serving"]
    lines: list[str] = []
    code: int = 0
    flows: str = ""


T = TypeVar("T", bound=msgspec.Struct)


async def receive(channel: Channel, of: type[T]) -> tuple[T, list[int]]:
    """With its descriptors. Raises ChannelClosed, NotUnderstood."""
    try:
        message, descriptors = await channel.receive()
        return msgspec.convert(message, of), descriptors
    except (msgspec.MsgspecError, RecursionError) as error:
        raise NotUnderstood(str(error)) from None
