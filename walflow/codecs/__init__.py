"""Codecs: they convert the bytes of one event to a value and back. One module for each codec.

Codecs of the same name and configuration are one object. Each comes by an entry point of the group `walflow.codecs`.
The entry point names a function (or class) that takes the `config` record of the flow file and returns the codec.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import cast

from walflow.codecs.binary import BINARY
from walflow.codecs.json import JSON, JSON_SORTED
from walflow.codecs.msgpack import MSGPACK
from walflow.codecs.per_event import EventCodec
from walflow.codecs.string import STRING
from walflow.errors import WalflowError
from walflow.event import Codec
from walflow.plugins import NotLoadable, Plugins, discover

__all__ = ["BINARY", "GIVE_ANY_BYTE", "JSON", "JSON_SORTED", "MSGPACK", "STRING", "EventCodec", "make", "registered"]

GROUP = "walflow.codecs"
GIVE_ANY_BYTE = frozenset({"avro", "msgpack", "protobuf", "tremor"})  # so no separator can stand behind them

MakeCodec = Callable[[Mapping[str, object]], Codec]

_made: dict[tuple[str, str], Codec] = {}


@cache
def registered() -> Plugins[MakeCodec]:
    """Raises NotLoadable where two distributions claim one name."""
    return discover(GROUP, "codec", _checked)


def make(name: str, config: Mapping[str, object] | None = None) -> Codec:
    """Raises WalflowError with a line for the flow file's author."""
    key = (name, repr(sorted((config or {}).items())))
    if key not in _made:
        if name not in registered():
            raise WalflowError(f"Unknown codec {name}")
        _made[key] = registered()[name](config or {})
    return _made[key]


def _checked(named: str, found: object) -> MakeCodec:
    if not callable(found):
        raise NotLoadable(f"{named} is no function that makes a codec")
    return cast(MakeCodec, found)
