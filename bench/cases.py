"""The rows of the table, one entry each."""

from dataclasses import dataclass, field
from typing import Final

from bench.load import Load
from bench.rsyslog import RsyslogDisk
from bench.systems import System, Walflow


@dataclass(frozen=True)
class Case:
    """`baseline`: a short name, where the other rows are to be divided by this one."""

    system: System
    load: Load = field(default_factory=Load)
    note: str = ""
    baseline: str = ""

    @property
    def name(self) -> str:
        return f"{self.system.name}{self.note}"


ECHO: Final = Walflow("walflow: wal, then echo", "server.troy", file=False)

CASES: Final = (
    Case(Walflow("walflow: wal, then file and echo", "server.troy")),
    Case(ECHO),
    Case(Walflow("walflow without its wal: file and echo", "plain.troy"), baseline="without wal"),
    Case(RsyslogDisk(), baseline="rsyslog disk"),
    Case(ECHO, Load(connections=49), ", 49 clients", baseline="49 clients"),
    Case(ECHO, Load(connections=49, mute=1), ", 49 clients beside a mute one"),
)
