"""`/letters`: what the sinks of logs have rejected, and who sends it again or drops it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web

from walflow.admin.body import TooLong, body_of
from walflow.admin.guard import Guard
from walflow.contract import LetterAnswer
from walflow.nodes.letters import SinkLetters
from walflow.positions import Range
from walflow.runtime.daemon import Daemon

LONGEST: Final = 8 << 20  # bytes of a request: one event is a MiB at most
Number = Annotated[int, msgspec.Meta(ge=1)]


class LettersOf(msgspec.Struct):
    """Of one sink of a log. `path`: their directory. `overwrites`: an old event may replace a newer one there.
    `kept`, `going`, `delivered`, `rejected`, `run`: as of `walflow.contract.LetterAnswer`."""

    log: str
    sink: str
    path: str
    overwrites: bool
    kept: int
    going: int
    delivered: int
    rejected: int
    run: int


class LettersAnswer(msgspec.Struct):
    """As `walflow.contract.LetterAnswer`."""

    taken: int
    kept: int
    going: int
    delivered: int
    rejected: int
    refusal: str
    run: int


class LettersRequest(msgspec.Struct, forbid_unknown_fields=True):
    """`path`: as of `LettersOf`. `ranges`: numbers of letters, ascending. `mended`: by number, what goes in the place
    of the event."""

    path: str
    do: Literal["retry", "drop"]
    ranges: Sequence[tuple[Number, Number]]
    mended: Mapping[Number, msgspec.Raw] = {}


class Letters:
    def __init__(self, daemon: Daemon, guard: Guard) -> None:
        self._daemon = daemon
        self._guard = guard

    async def show(self, request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode([*self._known()]), content_type="application/json")

    async def change(self, request: web.Request) -> web.Response:
        if not self._guard.may_change:
            line = "letters are changed with an --admin-token-file, or an --admin that is unix:/path"
            return web.Response(text=f"{line}\n", status=403)
        try:
            wanted = msgspec.json.decode(await body_of(request, LONGEST), type=LettersRequest)
        except TooLong as error:
            return web.Response(text=f"{error}\n", status=413)
        except (msgspec.MsgspecError, RecursionError) as error:
            return web.Response(text=f"{error}\n", status=400)
        keeper = next((one.keeper for one in self._ways() if one.keeper and one.keeper.path == wanted.path), None)
        if keeper is None:
            return web.Response(text=f"no log has letters in {wanted.path} now\n", status=404)
        answer: asyncio.Future[LetterAnswer] = asyncio.get_running_loop().create_future()

        def done(found: LetterAnswer) -> None:
            if not answer.done():
                answer.set_result(found)

        ranges: list[Range] = [one for one in wanted.ranges if one[0] <= one[1]]
        if wanted.do == "drop":
            keeper.drop(ranges, done)
        else:
            keeper.retry(ranges, {number: bytes(value) for number, value in wanted.mended.items()}, done)
        found = await answer
        return web.Response(
            body=msgspec.json.encode(LettersAnswer(**found._asdict())), status=202, content_type="application/json"
        )

    def _ways(self) -> Iterator[SinkLetters]:
        for nodes in self._daemon.nodes.connectors:
            yield from nodes.source.letters

    def _known(self) -> Iterator[LettersOf]:
        connectors = {plan.id: plan.connector for plan in self._daemon.assembly.connectors}
        for nodes in self._daemon.nodes.connectors:
            for way in nodes.source.letters:
                if way.keeper is None:
                    continue
                state = way.keeper.state()
                yield LettersOf(
                    nodes.name,
                    str(way.id),
                    way.keeper.path,
                    connectors[way.id].overwrites(),
                    state.kept,
                    state.going,
                    state.delivered,
                    state.rejected,
                    state.run,
                )
