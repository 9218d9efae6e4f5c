"""tremor::system."""

import socket
import time
from collections.abc import Mapping

from walflow import __version__
from walflow.expr.evaluate import INGEST_NS
from walflow.expr.functions import Function, function


def hostname() -> str:
    return socket.gethostname()


def instance() -> str:
    return "walflow"


def version() -> str:
    return __version__


def nanotime() -> int:
    return time.time_ns()


def ingest_ns() -> int:
    return INGEST_NS.get()


FUNCTIONS: Mapping[str, Function] = {
    "hostname": function(hostname),
    "instance": function(instance),
    "version": function(version),
    "nanotime": function(nanotime, "call"),
    "ingest_ns": function(ingest_ns, "event"),
}
