"""What `$kv` of an event says, with tremor's names, and what the store makes of it."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, cast

from connectors.kv.store import KvStore
from walflow import CannotDecode, CannotEncode, WalflowError
from walflow.codecs import JSON_SORTED

KEYED: Final = ("get", "put", "swap", "delete", "cas")
LONGEST_KEY: Final = 65536
MORE: Final[Mapping[str, frozenset[str]]] = {"cas": frozenset({"old"}), "scan": frozenset({"end"})}


class BadCommand(WalflowError):
    """The command can never be carried out: its event is rejected."""


class KvCommand(NamedTuple):
    """`key`: of a scan, where it begins. `old`: of cas, what must be there as JSON; None: nothing. `value`: JSON."""

    op: Literal["get", "put", "swap", "delete", "cas", "scan"]
    key: bytes
    value: bytes = b"null"
    end: bytes | None = None
    old: bytes | None = None


class KvAnswer(NamedTuple):
    key: bytes
    value: object


def command_of(meta: Mapping[str, object], value: object) -> KvCommand:
    """Raises BadCommand."""
    own = meta.get("kv")
    if not isinstance(own, Mapping):
        raise BadCommand("$kv is no record")
    given = cast(Mapping[str, object], own)
    ops = [op for op in (*KEYED, "scan") if op in given]
    if len(ops) != 1:
        raise BadCommand(f"$kv has one of {', '.join(KEYED)} and scan, not {', '.join(ops) or 'none'}")
    op = cast(Literal["get", "put", "swap", "delete", "cas", "scan"], ops[0])
    unknown = given.keys() - {op} - MORE.get(op, frozenset())
    if unknown:
        raise BadCommand(f"$kv has no key {min(unknown)} beside {op}")
    key = _key(given[op], op)
    end = _key(given["end"], "end") if "end" in given else None
    old = _encoded(given["old"]) if "old" in given else None
    return KvCommand(op, key, _encoded(value) if op in ("put", "swap", "cas") else b"null", end, old)


def carry_out(command: KvCommand, store: KvStore, most: int) -> Sequence[KvAnswer]:
    """Raises BadCommand."""
    key = command.key
    if command.op == "scan":
        found = store.scan(key, command.end, most + 1)
        if len(found) > most:
            raise BadCommand(f"the scan finds more than max_scan, {most}: name an end")
        return [KvAnswer(one.key, JSON_SORTED.decode(one.value)) for one in found]
    before = store.get(key)
    known = None if before is None else JSON_SORTED.decode(before)
    if command.op in ("get", "delete"):
        if command.op == "delete" and before is not None:
            store.delete(key)
        return [KvAnswer(key, known)]
    if command.op == "cas" and before != command.old:
        raise BadCommand(f"cas: expected {_told(command.old)} but found {_told(before)}")
    store.put(key, command.value)
    answer = {"put": JSON_SORTED.decode(command.value), "swap": known, "cas": None}[command.op]
    return [KvAnswer(key, answer)]


def _key(given: object, name: str) -> bytes:
    key = given.encode(errors="surrogatepass") if isinstance(given, str) else given
    if not isinstance(key, bytes):
        raise BadCommand(f"$kv.{name} is neither a string nor binary")
    if len(key) > LONGEST_KEY:
        raise BadCommand(f"$kv.{name} has {len(key):,} bytes, and a key at most {LONGEST_KEY:,}")
    return key


def _encoded(value: object) -> bytes:
    try:
        encoded = JSON_SORTED.encode(value)
        JSON_SORTED.decode(encoded)  # so that what is stored can be read
    except (CannotEncode, CannotDecode) as error:
        raise BadCommand(f"the value cannot be stored: {error}") from error
    return encoded


def _told(value: bytes | None) -> str:
    return "nothing" if value is None else value[:100].decode(errors="replace")
