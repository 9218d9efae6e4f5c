"""The input of a pipeline that each event of its log comes to:
`walflow.operators.to_spark` has put it into the metadata."""

from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from walflow_kernel import json
from walflow_kernel.shipped import INPUT_META

_arrow: Any = pa

MOST_KNOWN: Final = 4096  # texts of metadata that are remembered: the events of one source share it


def with_ports(batch: Any) -> Any:
    """The batch with a column `port`, and the metadata as it was. A row without an event has no port."""
    texts = batch.column("meta").to_pylist()
    metas, ports = zip(*map(_parted, texts), strict=True) if texts else ((), ())
    columns = [*(batch.column(name) for name in batch.schema.names if name != "meta"), pa.array(metas, pa.string())]
    names = [*(name for name in batch.schema.names if name != "meta"), "meta", "port"]
    return _arrow.RecordBatch.from_arrays([*columns, pa.array(ports, pa.string())], names=names)


@lru_cache(MOST_KNOWN)
def _parted(text: str | None) -> tuple[str | None, str | None]:
    if text is None:
        return None, None
    meta: Any = json.value(text.encode())
    port = meta.pop(INPUT_META, None)
    return json.text(meta) if meta else None, port
