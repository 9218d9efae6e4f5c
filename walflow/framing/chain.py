"""Chains of pre- and postprocessors, in tremor's order: the first one named is the first that the bytes pass.

A chain of preprocessors ends in a framing that finds events in the bytes, or in pieces that are one event each. On
the way out, each event is encoded alone; the last step puts the frame between events. So a block always has one of a
few simple framings, after any chain, and a log's tag names only those.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from walflow.errors import WalflowError
from walflow.event import Cutting, Framing
from walflow.framing.messages import MESSAGES
from walflow.framing.processor import Encoder, Processor
from walflow.framing.separate import LINES
from walflow.framing.steps import Step
from walflow.framing.whole import WHOLE
from walflow.plugins import NotLoadable, Plugins, discover

GROUP: Final = "walflow.framings"

Named = tuple[str, Mapping[str, object]]


@cache
def registered() -> Plugins[Processor]:
    """Raises NotLoadable where two distributions claim one name."""
    return discover(GROUP, "pre- or postprocessor", _checked)


def _checked(named: str, found: object) -> Processor:
    if not isinstance(found, Processor):
        raise NotLoadable(f"{named} is no walflow.Processor")
    return found


def preprocessors() -> list[str]:
    """The names that can be used. Those that cannot be loaded are left out."""
    return [name for name in sorted(registered()) if (made := _loaded(name)) and made.is_preprocessor]


def postprocessors() -> list[str]:
    """The names that can be used. Those that cannot be loaded are left out."""
    return [name for name in sorted(registered()) if (made := _loaded(name)) and made.is_postprocessor]


def _loaded(name: str) -> Processor | None:
    try:
        return registered()[name]
    except NotLoadable:
        return None


class Incoming(NamedTuple):
    """`steps`: the first steps for the bytes. `framing`: finds the events in their output; WHOLE or MESSAGES: each
    piece is one event. `messages`: the input is no stream of bytes but messages, each a piece. `steps_cut`: one of
    `steps` cuts the stream into pieces."""

    steps: tuple[Step, ...]
    framing: Cutting
    messages: bool = False
    steps_cut: bool = False

    @property
    def cut(self) -> bool:
        """Whether the last step joins its pieces and divides them again."""
        return self.framing is not WHOLE and self.framing is not MESSAGES

    @property
    def finds_events(self) -> bool:
        """Whether an event begins and ends where the sender says so, and not where a read of the stream does."""
        return self.cut or self.steps_cut or self.messages

    @property
    def resumable(self) -> bool:
        """Each event lies in the stream as it is, so the stream can be read again from any event on."""
        return self.cut and not self.steps


class Outgoing(NamedTuple):
    """`encoders`: the steps for each event. `framing`: then separates the events; WHOLE: nothing separates them;
    MESSAGES: the protocol does."""

    encoders: tuple[Encoder, ...]
    framing: Framing


class BadChainOrder(WalflowError):
    """The step at `number` of a chain cannot work there."""

    def __init__(self, number: int, message: str, hint: str) -> None:
        super().__init__(message)
        self.number = number
        self.hint = hint


_cuttings: dict[tuple[str, str, int | None], Cutting] = {("separate", "{}", None): LINES}
_framings: dict[tuple[str, str], Framing] = {("separate", "{}"): LINES}


def incoming(chain: Sequence[Named], *, messages: bool = False) -> Incoming:
    """Of a `preprocessors` list. Raises WalflowError with a line for the flow file's author."""
    links = [(name, _preprocessor(name), config) for name, config in chain]
    _check_incoming([(name, processor) for name, processor, _ in links], messages=messages)
    cutting = _cutting(links[-1][1], links[-1][2]) if links else None
    steps = links if cutting is None else links[:-1]
    made = tuple(_step(processor, config) for _, processor, config in steps)
    steps_cut = any(processor.cuts for _, processor, _ in steps)
    return Incoming(made, cutting or (MESSAGES if messages else WHOLE), messages, steps_cut)


def outgoing(chain: Sequence[Named], *, messages: bool = False) -> Outgoing:
    """Of a `postprocessors` list. Raises WalflowError with a line for the flow file's author."""
    links = [(name, _postprocessor(name), config) for name, config in chain]
    _check_outgoing([(name, processor) for name, processor, _ in links])
    framing = _framing(links[-1][1], links[-1][2]) if links else None
    encoded = links if framing is None else links[:-1]
    encoders = tuple(_encoder(processor, config) for _, processor, config in encoded)
    return Outgoing(encoders, framing or (MESSAGES if messages else WHOLE))


def make(chain: Sequence[Named]) -> Framing:
    """The framing of a block, as a log's tag names it. Raises WalflowError."""
    if not chain:
        return WHOLE
    (name, config) = chain[0]
    processor = registered().get(name)
    framing = _cutting(processor, config) if processor else None
    if len(chain) > 1 or framing is None:
        raise WalflowError(f"Unknown framing {', '.join(name for name, _ in chain)}")
    return framing


def frames_of(payloads: Sequence[bytes]) -> tuple[bytes, Framing]:
    """Frames for separate events, as a block needs them: lines if possible,
    because many lines are validated at once."""
    data = LINES.join(payloads)
    if LINES.count(data) == len(payloads):
        return data, LINES
    return MESSAGES.join(payloads), MESSAGES


def _preprocessor(name: str) -> Processor:
    if name not in registered() or not registered()[name].is_preprocessor:
        raise WalflowError(f"Unknown preprocessor {name}")
    return registered()[name]


def _postprocessor(name: str) -> Processor:
    if name not in registered() or not registered()[name].is_postprocessor:
        raise WalflowError(f"Unknown postprocessor {name}")
    return registered()[name]


def _step(processor: Processor, config: Mapping[str, object]) -> Step:
    assert processor.step is not None
    return processor.step(config)


def _cutting(processor: Processor, config: Mapping[str, object]) -> Cutting | None:
    """One object for each name and configuration, so that two can be compared by identity."""
    if processor.cutting is None:
        return None
    made = processor.cutting(config)
    return _cuttings.setdefault((made.name, repr(made.config), made.max_length), made)


def _framing(processor: Processor, config: Mapping[str, object]) -> Framing | None:
    """The framing between events; None for a step that only encodes. A cutting of the same name and configuration is
    the same object."""
    if processor.framing is None:
        return None
    if processor.cutting is not None:
        return _cutting(processor, config)
    made = processor.framing(config)
    return _framings.setdefault((made.name, repr(made.config)), made)


def _encoder(processor: Processor, config: Mapping[str, object]) -> Encoder:
    if processor.encoder is not None:
        return processor.encoder(config)
    framing = _framing(processor, config)
    assert framing is not None
    return lambda payload: framing.join((payload,))


def _check_incoming(chain: Sequence[tuple[str, Processor]], *, messages: bool) -> None:
    """Refuses a chain that could only break events apart, or do nothing."""
    cut_by: str | None = None  # the step with a separator that made the pieces which come here
    for number, (name, processor) in enumerate(chain):
        if processor.wants_pieces and number == 0 and not messages:
            message = f"`{name}` stands first, and has no pieces to look at: a read of a stream is never empty"
            raise BadChainOrder(number, message, "put it behind `separate`")
        if cut_by is not None and processor.takes_any_byte:
            message = f"`{name}` behind `{cut_by}`: the bytes that it takes may hold the separator"
            raise BadChainOrder(number, message, BEHIND_SEPARATOR)
        if cut_by is not None and processor.cuts:
            message = f"`{name}` behind `{cut_by}` would join again what was cut"
            raise BadChainOrder(number, message, "name one of the two")
        if processor.cuts:
            cut_by = name if processor.separator else None
        elif not processor.wants_pieces:
            cut_by = None


def _check_outgoing(chain: Sequence[tuple[str, Processor]]) -> None:
    """Refuses a chain whose output no receiver could divide into events again."""
    for number, ((before, processor), (name, following)) in enumerate(pairwise(chain), 1):
        if following.separator and processor.gives_any_byte:
            message = f"`{name}` behind `{before}`: the bytes it gives may hold the separator"
            raise BadChainOrder(number, message, BEHIND_SEPARATOR)


BEHIND_SEPARATOR: Final = "put `base64` between them, or `length-prefixed` in the place of `separate`"
