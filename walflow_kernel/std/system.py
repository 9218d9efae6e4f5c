"""tremor::system. The time is that of the event: no function reads a clock."""

import socket
from collections.abc import Mapping
from importlib.metadata import version as installed

from walflow_kernel.functions import Function, function
from walflow_kernel.moment import Moment


def hostname() -> str:
    return socket.gethostname()


def instance() -> str:
    return "walflow"


def version() -> str:
    return installed("walflow")


def nanotime(moment: Moment) -> int:
    return moment.ingest_ns


def ingest_ns(moment: Moment) -> int:
    return moment.ingest_ns


FUNCTIONS: Mapping[str, Function] = {
    "hostname": function(hostname),
    "instance": function(instance),
    "version": function(version),
    "nanotime": function(nanotime, "time"),
    "ingest_ns": function(ingest_ns, "event"),
}
