"""Those that are compared."""

from collections.abc import Sequence
from typing import Final

from bench.crash.kafka import Kafka
from bench.crash.nats import Nats
from bench.crash.otel import Otel
from bench.crash.systems import Rsyslog, SyslogNg, System, Walflow
from bench.crash.telegraf import Telegraf

SYSTEMS: Final[Sequence[System]] = (Walflow(), Rsyslog(), SyslogNg(), Nats(), Kafka(), Otel(), Telegraf())
