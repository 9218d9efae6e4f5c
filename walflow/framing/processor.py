"""The meaning of one name in `preprocessors` and `postprocessors`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from walflow.event import Cutting, Framing
from walflow.framing.steps import Step

Config = Mapping[str, object]
Encoder = Callable[[bytes], bytes]


@runtime_checkable
class TimedEncoder(Protocol):
    """An encoder whose bytes depend on when an event came in."""

    def at(self, ingest_ns: int) -> Encoder: ...


def encoder_at(encoder: Encoder, ingest_ns: int) -> Encoder:
    timed: object = encoder
    return timed.at(ingest_ns) if isinstance(timed, TimedEncoder) else encoder


@dataclass(frozen=True, kw_only=True)
class Processor:
    """Both directions of one name. An entry point of the group `walflow.framings` names an object of this class.

    Each function takes the `config` record of the flow file and raises WalflowError for one that it cannot use.

    - `step`: the preprocessor. None: there is none of this name.
    - `cutting`: the preprocessor where it stands last and cuts events out of the stream where they lie, which is
      faster.
    - `encoder`: the postprocessor, for one event. None: there is none of this name, or `framing` is all of it.
    - `framing`: the postprocessor where it stands last and tells the events of a block apart.

    What is known of the bytes, so that a chain that cannot work is refused:

    - `cuts`: as a preprocessor it joins what comes, and cuts it anew.
    - `separator`: it ends each event with a byte, which no event may hold.
    - `wants_pieces`: as a preprocessor it has nothing to do where nothing was cut before it.
    - `takes_any_byte`: what it takes may hold every byte, so a separator cannot stand before it.
    - `gives_any_byte`: what the postprocessor gives may hold every byte, so a separator cannot stand behind it.
    """

    description: str
    step: Callable[[Config], Step] | None = None
    cutting: Callable[[Config], Cutting] | None = None
    encoder: Callable[[Config], Encoder] | None = None
    framing: Callable[[Config], Framing] | None = None
    config: str = ""
    cuts: bool = False
    separator: bool = False
    wants_pieces: bool = False
    takes_any_byte: bool = False
    gives_any_byte: bool = False

    @property
    def is_preprocessor(self) -> bool:
        return self.step is not None

    @property
    def is_postprocessor(self) -> bool:
        return self.encoder is not None or self.framing is not None
