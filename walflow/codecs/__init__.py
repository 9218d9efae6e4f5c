"""Bytes of one event <-> value, one codec a file. Codecs of the same kind and configuration are one object."""

from collections.abc import Mapping

from walflow.codecs.binary import BINARY
from walflow.codecs.json import JSON, JSON_SORTED
from walflow.codecs.msgpack import MSGPACK
from walflow.codecs.string import STRING
from walflow.errors import WalflowError
from walflow.event import Codec

__all__ = ["BINARY", "JSON", "JSON_SORTED", "MSGPACK", "NAMES", "STRING", "make"]

NAMES = ("json", "string", "msgpack", "binary")

_PLAIN: dict[str, Codec] = {codec.name: codec for codec in (STRING, MSGPACK, BINARY)}


def make(name: str, config: Mapping[str, object] | None = None) -> Codec:
    """Raises WalflowError with a line for the flow file's author."""
    config = config or {}
    match name:
        case "json":
            _known_keys(name, config, {"mode"})
            mode = config.get("mode", "unsorted")
            if mode not in ("sorted", "unsorted"):
                raise WalflowError(f"json has the modes sorted and unsorted, not {mode!r}")
            return JSON_SORTED if mode == "sorted" else JSON
        case "string" | "msgpack" | "binary":
            _known_keys(name, config, set())
            return _PLAIN[name]
        case _:
            raise WalflowError(f"Unknown codec {name}")


def _known_keys(name: str, config: Mapping[str, object], known: set[str]) -> None:
    unknown = sorted(config.keys() - known)
    if unknown:
        takes = ", ".join(sorted(known)) or "no configuration"
        raise WalflowError(f"codec {name} has no key {unknown[0]}: it takes {takes}")
