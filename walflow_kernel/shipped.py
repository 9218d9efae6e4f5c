"""A compiled region as plain data, and back: what goes to Spark's executors.

The source goes as text. What its names stand for goes as a pickle of the kernel's own values and functions: a
function of `std` by where it is found, everything else as the kernel's classes say. `walflow.compile.shipment` makes
the pickle, and refuses what is not the kernel's. `revive` needs this package, and what `needs` lists.
"""

import base64
import io
import pickle
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from walflow_kernel.functions import Function
from walflow_kernel.generated import Run, define
from walflow_kernel.projection import Wanted, classes, kind

NEEDS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "walflow_kernel.calendar.civil": (("tzdata", "tzdata"),),
    "walflow_kernel.extractors.influx": (("line_protocol_parser", "line-protocol-parser"),),
    "walflow_kernel.std.datetime": (("tzdata", "tzdata"),),
    "walflow_kernel.std.re": (("re2", "google-re2"),),
    "walflow_kernel.windows.dds": (("ddsketch", "ddsketch"),),
    "walflow_kernel.windows.hdr": (("hdrh", "hdrhistogram"),),
}
"""Module of the kernel -> what it imports beside Python's own library, and the distributions that have it. msgspec
and orjson are not among them: without them the standard library is used."""

INPUT_META: Final = "walflow::input"  # in the metadata, in the log of a pipeline with several inputs


class Shipped(NamedTuple):
    """`places`: where in a flow file each line of the source comes from. `needs`: distributions, by what is imported.
    `asks`: something in it asks what time it is; `draws`: or for chance. `reads`: events are decoded; `wanted`: only
    what is in this shape. `made`, `repeated`: exits, see `walflow.compile.compiled.Compiled`. `ticking`: the windows
    that time alone closes. `weighing`: the same for events of more than `UNWEIGHED` bytes, if this
    does not weigh what it makes."""

    name: str
    source: str
    table: bytes
    exits: tuple[str, ...]
    places: tuple[str | None, ...]
    needs: tuple[tuple[str, str], ...]
    reads_meta: bool
    asks: bool
    draws: bool
    reads: bool
    wanted: Wanted | None
    made: frozenset[str]
    repeated: frozenset[str]
    ticking: tuple[str, ...] = ()
    weighing: "Shipped | None" = None

    def place(self, line: int) -> str | None:
        """A line below 0 is one of `weighing`."""
        if line < 0 and self.weighing is not None:
            return self.weighing.place(-line)
        return self.places[line - 1] if 0 < line <= len(self.places) else None


class Keeping(NamedTuple):
    """A pipeline with state. Its rows are dealt to `buckets`, each with a state of its own. `begins`: the first state
    of each of them, packed (`walflow_kernel.kept`). `dealers`: what gives the group of an event, by the port that it
    comes to; an event of another port is of the first bucket. `dropping`: an event that has no group leaves nothing.
    `identity`: what was compiled and how it is dealt; a state is of one identity. `single`: why there is one bucket,
    None where there may be several. `closes_ns`: after so much time without an event no window is open that time
    closes; 0 where time closes none.
    `least_ns`: the shortest of their intervals."""

    buckets: int
    begins: bytes
    dealers: "Mapping[str, Shipped]"
    dropping: bool
    identity: str
    single: str | None
    closes_ns: int = 0
    least_ns: int = 0


class ShippedPipeline(NamedTuple):
    """`source`: what an error event calls it. `regions`: what runs, by the input port that events come to. `salt`:
    what is drawn by chance follows from it and the event's position. `keeping`: of a pipeline that keeps state."""

    source: str
    outputs: tuple[str, ...]
    regions: Mapping[str, Shipped]
    salt: int
    keeping: "Keeping | None" = None

    @property
    def needs(self) -> tuple[tuple[str, str], ...]:
        return tuple(sorted({need for region in self.regions.values() for need in region.needs}))

    def packed(self) -> bytes:
        return pickle.dumps(self, protocol=5)


class PackedText(str):
    """What was packed, in base64. Reading it runs what it names, so it is never a text of a flow file's."""

    __slots__ = ()


def packed_text(shipped: ShippedPipeline) -> PackedText:
    return PackedText(base64.b64encode(shipped.packed()).decode())


def shipped_of(text: str) -> ShippedPipeline:
    """Only of what `packed_text` made."""
    found: ShippedPipeline = pickle.loads(base64.b64decode(text))
    return found


class Revived(NamedTuple):
    """`kind`: what msgspec decodes an event into; None where it is decoded whole."""

    shipped: Shipped
    run: Run
    kind: Any


@lru_cache(64)
def revive(shipped: Shipped) -> Revived:
    names = dict(_Table(io.BytesIO(shipped.table)).load())
    made = dict[str, type]() if shipped.wanted is None else dict(classes(shipped.wanted))
    run = define(f"<walflow {shipped.name}>", shipped.source, {**names, **made})
    return Revived(shipped, run, None if shipped.wanted is None else kind(made[shipped.wanted.name]))


def missing(needs: Iterable[tuple[str, str]]) -> list[str]:
    """The distributions among them that cannot be imported here."""
    return sorted({distribution for module, distribution in needs if not _is_there(module)})


def _is_there(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True


class _Table(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> object:
        """A function of `std`: its module, the mapping that it stands in, its name there."""
        module, mapping, name = pid
        function: Function = getattr(import_module(module), mapping)[name]
        return function.apply
