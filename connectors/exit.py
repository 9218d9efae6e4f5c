"""Stops the daemon at the first event, for flows that come to an end."""

import asyncio
from typing import ClassVar, cast

from pydantic import Field

from walflow import Block, CannotDecode, CodecUse, Connector, Guarantee, Inlet, Outlet, Ports, Traits

NANOS = 1_000_000_000


class Exit(Connector):
    """The first event stops the daemon, with exit code 0. If the event has fields `delay` or `graceful`, they
    override the keys below."""

    ports: ClassVar[Ports] = Ports(inputs=("in",), outputs=())
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN)

    delay: int = Field(default=0, ge=0, strict=True, description="Nanoseconds from the event to the stop.")
    graceful: bool = Field(
        default=True,
        description="Whether events that were already read are delivered first, as on SIGTERM. `false`: the daemon "
        "stops at once.",
    )

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        how = "drains and stops" if self.graceful else "stops at once"
        return Guarantee(sink=f"an event is acked, and the daemon {how}")

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        asked = False

        def accept(block: Block) -> None:
            nonlocal asked
            inlet.ack(block)
            if not asked:  # the first event decides
                asked = True
                self._stop(inlet, block)

        inlet.serve(accept)
        await asyncio.get_running_loop().create_future()  # until it is cancelled

    def _stop(self, inlet: Inlet, block: Block) -> None:
        event = _first(block)
        delay = _delay(event.get("delay"), self.delay)
        graceful = event.get("graceful")
        graceful = graceful if isinstance(graceful, bool) else self.graceful
        inlet.log.info("exit", delay_seconds=delay / NANOS, graceful=graceful)
        inlet.scheduler.call_later(delay / NANOS, lambda: inlet.stop(graceful=graceful))


def _first(block: Block) -> dict[str, object]:
    """The first event of the block, or an empty record if the event is no record."""
    try:
        event = block.timed_codec.decode(block.frames.payloads()[0])
    except CannotDecode:
        return {}
    return cast("dict[str, object]", event) if isinstance(event, dict) else {}


def _delay(given: object, otherwise: int) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 64:
        return given
    return otherwise
