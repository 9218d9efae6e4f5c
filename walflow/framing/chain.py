"""Chains of pre- and postprocessors, in tremor's order: the first named is the first that the bytes pass.

On the way in a chain ends in a framing that cuts bytes into events where they lie, or in pieces that are events each.
On the way out each event is encoded by itself, and the last step is the frame between events. So a block always holds
frames of a simple kind, whatever it came through: a log's tag names only those.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from walflow.errors import WalflowError
from walflow.event import Cutting, Framing
from walflow.framing import base64
from walflow.framing.compress import Decompress, encoder
from walflow.framing.length_prefixed import LENGTH_PREFIXED, LENGTHS
from walflow.framing.messages import MESSAGES
from walflow.framing.remove_empty import REMOVE_EMPTY
from walflow.framing.separate import LINES, Separate, Separating
from walflow.framing.steps import Step, known_keys
from walflow.framing.textual_length_prefixed import TEXTUAL_LENGTH_PREFIXED, TEXTUAL_LENGTHS
from walflow.framing.whole import WHOLE

PREPROCESSORS: Final = (
    "separate",
    "length-prefixed",
    "textual-length-prefixed",
    "base64",
    "decompress",
    "remove-empty",
)
POSTPROCESSORS: Final = ("separate", "length-prefixed", "textual-length-prefixed", "base64", "compress")

Named = tuple[str, Mapping[str, object]]
Encoder = Callable[[bytes], bytes]


class Incoming(NamedTuple):
    """`steps`: what the bytes pass first. `framing`: cuts what comes out into events; WHOLE or MESSAGES: each piece is
    one. `messages`: what comes is no stream of bytes but messages, each a piece."""

    steps: tuple[Step, ...]
    framing: Cutting
    messages: bool = False

    @property
    def cut(self) -> bool:
        """The last step joins its pieces, and cuts them anew."""
        return isinstance(self.framing, Separate)


class Outgoing(NamedTuple):
    """`encoders`: what each event passes. `framing`: what then tells them apart; WHOLE: nothing does; MESSAGES: the
    protocol does."""

    encoders: tuple[Encoder, ...]
    framing: Framing


class Misplaced(WalflowError):
    """The link at `number` of a chain can do nothing sensible there."""

    def __init__(self, number: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.number = number
        self.hint = hint


_separates: dict[tuple[bytes, int | None], Separate] = {(LINES.separator, LINES.max_length): LINES}


def separate(config: Mapping[str, object]) -> Separate:
    """One object a configuration. Raises WalflowError."""
    made = Separate.from_config(config)
    return _separates.setdefault((made.separator, made.max_length), made)


def incoming(chain: Sequence[Named], *, messages: bool = False) -> Incoming:
    """Of a `preprocessors` list. Raises WalflowError with a line for the flow file's author."""
    _check_incoming([name for name, _ in chain], messages=messages)
    if chain and chain[-1][0] == "separate":
        return Incoming(tuple(map(_step, chain[:-1])), separate(chain[-1][1]), messages)
    return Incoming(tuple(map(_step, chain)), MESSAGES if messages else WHOLE, messages)


def outgoing(chain: Sequence[Named], *, messages: bool = False) -> Outgoing:
    """Of a `postprocessors` list. Raises WalflowError with a line for the flow file's author."""
    _check_outgoing([name for name, _ in chain])
    framing = _frame(*chain[-1]) if chain else None
    encoded = chain if framing is None else chain[:-1]
    return Outgoing(tuple(map(_encoder, encoded)), framing or (MESSAGES if messages else WHOLE))


def held(payloads: Sequence[bytes]) -> tuple[bytes, Framing]:
    """Events of which each is known, as a block holds them. Lines where they can be: those are validated at once."""
    data = LINES.join(payloads)
    if LINES.count(data) == len(payloads):
        return data, LINES
    return MESSAGES.join(payloads), MESSAGES


def _step(named: Named) -> Step:
    name, config = named
    match name:
        case "separate":
            return Separating(separate(config))
        case "decompress":
            return Decompress.from_config(config)
        case "length-prefixed" | "textual-length-prefixed" | "base64" | "remove-empty":
            known_keys(name, config, ())
            return _PLAIN[name]
        case _:
            raise WalflowError(f"Unknown preprocessor {name}")


_PLAIN: Final[Mapping[str, Step]] = {
    "length-prefixed": LENGTHS,
    "textual-length-prefixed": TEXTUAL_LENGTHS,
    "base64": base64.BASE64,
    "remove-empty": REMOVE_EMPTY,
}


def _frame(name: str, config: Mapping[str, object]) -> Framing | None:
    """What stands between events; None for a step that only encodes."""
    if name == "separate":
        return separate(config)
    framing = _FRAMES.get(name)
    if framing is not None:
        known_keys(name, config, ())
    return framing


_FRAMES: Final[Mapping[str, Framing]] = {
    "length-prefixed": LENGTH_PREFIXED,
    "textual-length-prefixed": TEXTUAL_LENGTH_PREFIXED,
}


def _encoder(named: Named) -> Encoder:
    name, config = named
    framing = _frame(name, config)
    if framing is not None:
        return lambda payload: framing.join((payload,))
    match name:
        case "base64":
            known_keys(name, config, ())
            return base64.encode
        case "compress":
            return encoder(config)
        case _:
            raise WalflowError(f"Unknown postprocessor {name}")


_LENGTHS: Final = ("length-prefixed", "textual-length-prefixed")


def _check_incoming(names: Sequence[str], *, messages: bool) -> None:
    """What could only ever break events apart, or do nothing."""
    cut_by: str | None = None  # the step that made the pieces which come here
    for number, name in enumerate(names):
        if name == "remove-empty" and number == 0 and not messages:
            raise Misplaced(
                number, "`remove-empty` has nothing to remove: a read is never empty", "put it behind `separate`"
            )
        if cut_by == "separate" and name == "decompress":
            message = "`decompress` behind `separate`: compressed bytes may hold the separator"
            raise Misplaced(
                number, message, "put `base64` between them, or `length-prefixed` in the place of `separate`"
            )
        if cut_by == "separate" and name in ("separate", *_LENGTHS):
            message = f"`{name}` behind `separate` would join again what was cut"
            raise Misplaced(number, message, "name one of the two")
        if name in ("separate", *_LENGTHS):
            cut_by = name
        elif name != "remove-empty":
            cut_by = None


def _check_outgoing(names: Sequence[str]) -> None:
    """What nobody could take apart again."""
    for number, (before, name) in enumerate(pairwise(names), 1):
        if name == "separate" and before in ("compress", "length-prefixed"):
            message = f"`separate` behind `{before}`: the bytes it gives may hold the separator"
            raise Misplaced(
                number, message, "put `base64` between them, or `length-prefixed` in the place of `separate`"
            )
