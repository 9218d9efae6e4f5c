"""The log's configuration. What it does is in tests/delivery, tests/wal and tests/system."""

import pytest
from pydantic import ValidationError

from connectors.spark.config import SparkConfig
from connectors.wal import Wal


@pytest.mark.parametrize("kind", [Wal, SparkConfig])
@pytest.mark.parametrize("key", ["chunk_size", "max_chunks"])
def test_no_disk_has_so_many_bytes(kind: type[Wal] | type[SparkConfig], key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        kind.model_validate({"path": "state", key: 10**23})
