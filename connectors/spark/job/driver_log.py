"""Decides for each line that Spark and the job print whether it is a log line, and at which level. The content of
events must not be logged: messages of exceptions may contain it, so they are only for debugging."""

import re
from typing import Final, NamedTuple

from pyspark_walflow import discreet
from pyspark_walflow.discreet import TRACEBACK

LONGEST: Final = 64 << 10  # bytes of one line; the rest of it is cut off
_KEPT: Final = 2000  # characters of a line that is logged

_LOG4J: Final = re.compile(
    r"^(?:\[Stage .*?\])?\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?P<level>[A-Z]+) (?P<where>\S+?):? (?P<text>.*)$"
)
# why a JVM, or what starts Spark in it, refuses its settings; memory that is missing now is not among them
_UNLAUNCHED: Final = re.compile(
    r"^(?:Exception in thread \"main\" (?:org\.apache\.spark\.SparkException"
    r"|java\.lang\.(?:NumberFormat|IllegalArgument)Exception): (?P<spark>.+)"
    r"|(?P<java>(?:Invalid|Unrecognized|Improperly specified|Conflicting) .+))$"
)
_STACK: Final = re.compile(r"^(\tat |\t\.\.\. |\s+Suppressed: |Caused by: |(?:[\w$]+\.){2,}[\w$]+(?:: |$))")
_LEVELS: Final = {"WARN": "warning", "ERROR": "error", "FATAL": "error"}

# told by every start, or by every failure many times over; how a query failed is reported apart from this
_EXPECTED: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"^WARNING: Using incubator modules",
        r"^Using Spark's default log4j profile",
        r"^Setting default log level to",
        r"^To adjust logging level use",
        r"^\{\"ts\":.*\"logger\": ?\"SQLQueryContextLogger\"",
        r" WARN Utils: (Your hostname|Set SPARK_LOCAL_IP|Service '\w+' could not bind)",
        r" WARN NativeCodeLoader:",
        r" WARN HDFSBackedStateStoreProvider .* doesn't exist in loadedMaps",
        r" WARN MicroBatchExecution: Disabling AQE",
        r" WARN DAGScheduler: Failed to cancel job group",
        r" WARN ResolveWriteToStream: spark.sql.adaptive",
        r" ERROR (Utils: Aborting task|DataWritingSparkTask|Executor: Exception in task|WriteToDataSourceV2Exec)",
        r" ERROR (MicroBatchExecution: Query .* terminated with error|TaskSetManager: .*Task \d+ in stage .* failed)",
        r" ERROR PythonStreamingSourceRunner",
        r" WARN (SparkConf|HadoopFSUtils|package|GarbageCollectionMetrics|SparkSession): ",
        r"FutureWarning|^\s+warnings\.warn\(",
    )
)


class DriverLine(NamedTuple):
    level: str
    text: str


class DriverLog:
    """`feed` gets the lines of stderr in order. A traceback becomes its last line, a Java stack its first."""

    def __init__(self) -> None:
        self.decisive = ""  # the last line that told of an error
        self.unlaunched = ""  # why no JVM could be started, where its settings are the reason
        self.stopping = False  # from here on errors are what being interrupted looks like
        self._traceback = False
        self._place = ""  # the last one that the traceback named
        self._exception = False  # its message may have several lines
        self._quiet = False  # what was said last is not worth showing, nor is what hangs below it

    def feed(self, line: str) -> DriverLine:
        if self._traceback:
            return self._in_traceback(line)
        if found := _UNLAUNCHED.match(line):
            self.unlaunched = found["spark"] or found["java"]
        if line.startswith(TRACEBACK):
            self._traceback = True
            self._place = ""
            return DriverLine("debug", line)
        record = _LOG4J.match(line)
        if record:
            return self._record(record, line)
        if _STACK.match(line):
            self._exception = not line.startswith("\t")
        elif not self._exception and line.strip() and not line[0].isspace() and not _expected(line):
            return DriverLine("info", line[:_KEPT])
        return DriverLine("debug", line)

    def _record(self, record: re.Match[str], line: str) -> DriverLine:
        told = discreet.of_record(record["text"])
        self._exception = told != record["text"]  # and so its message may go on
        self._quiet = _expected(line)
        level = "debug" if self._quiet or self.stopping else _LEVELS.get(record["level"], "debug")
        if record["text"].endswith(TRACEBACK):
            self._traceback = True
            self._place = ""
        text = f"{record['where']}: {record['text'] if level == 'debug' else told}"[:_KEPT]
        if level == "error":
            self.decisive = text
        return DriverLine(level, text)

    def _in_traceback(self, line: str) -> DriverLine:
        if not line.strip() or line[0].isspace():
            self._place = discreet.place_of(line) or self._place
            return DriverLine("debug", line)
        self._traceback = False
        if _LOG4J.match(line):
            return self.feed(line)
        told = discreet.of_python(line, self._place)[:_KEPT]
        self._exception = told != line
        if not self._quiet:
            self.decisive = told
        return DriverLine("debug", line[:_KEPT]) if self._quiet or self.stopping else DriverLine("warning", told)


class Splitter:
    """Splits bytes into lines. A line that is too long is cut."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        *lines, rest = (self._rest + data).split(b"\n")
        if len(rest) > LONGEST:
            lines.append(rest[:LONGEST])
            rest = b""
        self._rest = rest
        return [line.decode(errors="replace").rstrip("\r") for line in lines]

    def end(self) -> list[str]:
        rest, self._rest = self._rest, b""
        return [rest.decode(errors="replace")] if rest else []


def _expected(line: str) -> bool:
    return any(pattern.search(line) for pattern in _EXPECTED)
