"""A real PostgreSQL server."""

import pytest

from bench.postgres_peer import BIN

needs_postgres = pytest.mark.skipif(not BIN, reason="PostgreSQL is missing (apt install postgresql)")
