"""What a driver prints, taken from Spark 4.3.0 as it came."""

import pytest
from hypothesis import given, strategies as st

from connectors.spark.job.driver_log import LONGEST, DriverLine, DriverLog, Splitter
from pyspark_walflow.discreet import LEFT_OUT

AT = "26/11/21 23:28:54"

QUIET = [
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties",
    f"{AT} WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1; using 192.0.2.2 instead",
    (
        f"{AT} WARN NativeCodeLoader: Unable to load native-hadoop library for your platform... "
        "using builtin-java classes"
    ),
    f"{AT} WARN ResolveWriteToStream: spark.sql.adaptive.enabled is not supported in streaming DataFrames/Datasets",
    '{"ts": "2026-11-21 23:28:46.582", "level": "ERROR", "logger": "SQLQueryContextLogger", "msg": "[UNRESOLVED"}',
    f"{AT} ERROR Executor: Exception in task 0.1 in stage 5.0 (TID 11)",
    "org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] '(value < 5)' is not true! SQLSTATE: P0001",
    "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.raiseError(QueryExecutionErrors.scala:3082)",
    (
        f"{AT} WARN HDFSBackedStateStoreProvider StateStoreProviderId[ x ]: "
        "The state for version 4 doesn't exist in loadedMaps."
    ),
    "Caused by: java.lang.InterruptedException",
    f"{AT} INFO SparkContext: Running Spark version 4.3.0",
    "",
]


@pytest.mark.parametrize("line", QUIET)
def test_what_every_start_and_every_failure_says_is_for_debugging(line: str) -> None:
    assert DriverLog().feed(line).level == "debug"


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        (
            f"{AT} WARN ProcessingTimeExecutor: Current batch is falling behind. The trigger interval is 1000 ms",
            "warning",
            "ProcessingTimeExecutor: Current batch is falling behind. The trigger interval is 1000 ms",
        ),
        (f"{AT} ERROR BlockManager: No space left on device", "error", "BlockManager: No space left on device"),
        ("hello from the job", "info", "hello from the job"),
        ("walflow: position 3 is not committed now", "info", "walflow: position 3 is not committed now"),
    ],
)
def test_what_is_worth_reading_keeps_its_level(line: str, level: str, text: str) -> None:
    assert DriverLog().feed(line) == DriverLine(level, text)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Invalid maximum heap size: -Xmxlots", "Invalid maximum heap size: -Xmxlots"),
        ("Unrecognized VM option 'UseLots'", "Unrecognized VM option 'UseLots'"),
        ('Exception in thread "main" org.apache.spark.SparkException: Master must be', "Master must be"),
        ('Exception in thread "main" java.lang.OutOfMemoryError: unable to create native thread', ""),
        ("Error occurred during initialization of VM", ""),
        ("hello from the job", ""),
    ],
)
def test_why_a_jvm_refuses_its_settings(line: str, reason: str) -> None:
    log = DriverLog()
    log.feed(line)
    assert log.unlaunched == reason


def test_a_traceback_is_its_last_line() -> None:
    driver_log = DriverLog()
    lines = [
        "Traceback (most recent call last):",
        '  File "job.py", line 3, in pipeline',
        "    raise KeyError('amount')",
        "KeyError: 'amount'",
        "after it",
    ]
    levels = [driver_log.feed(line).level for line in lines]
    assert levels == ["debug", "debug", "debug", "warning", "debug"], "a message may have several lines"
    assert driver_log.decisive == f"KeyError at job.py:3; {LEFT_OUT}"
    assert driver_log.feed(f"{AT} INFO SparkContext: x").level == "debug"
    assert driver_log.feed("printed by the job").level == "info"


def test_the_workers_traceback_in_a_lost_task_is_told_by_its_last_line() -> None:
    driver_log = DriverLog()
    record = (
        f"{AT} WARN TaskSetManager: Lost task 1.0 in stage 7.0 (TID 16): PythonException: "
        "Traceback (most recent call last):"
    )
    told = [
        driver_log.feed(line) for line in (record, '  File "worker.py", line 2', "ModuleNotFoundError: No module 'x'")
    ]
    assert [line.level for line in told] == ["warning", "debug", "warning"]
    assert told[2].text == "ModuleNotFoundError: No module 'x'"


def test_the_message_of_an_exception_may_have_several_lines() -> None:
    driver_log = DriverLog()
    told = [
        f"{AT} ERROR Executor: Exception in task 0.0 in stage 5.0 (TID 11)",
        (
            "org.apache.spark.sql.execution.streaming.state.StateStoreException: "
            "[KEY_SCHEMA] Provided schema does not match"
        ),
        "If you want to force running the query without schema validation, please set",
        "\tat org.apache.spark.sql.execution.Foo",
        "printed by the job",
    ]
    assert [driver_log.feed(line).level for line in told] == ["debug", "debug", "debug", "debug", "info"]


LOST = "WARN TaskSetManager: Lost task 0.0 in stage 0.0 (TID 0) (127.0.0.1 executor driver)"
CAST = (
    "org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'sesame\nsesame' of the type \"STRING\" "
    'cannot be cast to "INT" because it is malformed. SQLSTATE: 22018'
)
TOLD = (
    f"TaskSetManager: {LOST.partition(': ')[2]}: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] "
)


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (f"{AT} {LOST}: {CAST}\n\tat org.apache.spark.X", [TOLD + LEFT_OUT]),
        (f"{AT} ERROR Job: [CAST_INVALID_INPUT] 'sesame' SQLSTATE: 22018", None),
        (f'{AT} {LOST}: java.lang.NumberFormatException: For input string: "sesame"\n\tat java.X', None),
        ('Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: bad sesame\nsesame', None),
        ('Traceback (most recent call last):\n  File "a.py", line 3\npkg.BadEvent: sesame', None),
        (
            (
                f'{AT} {LOST}: PythonException: Traceback (most recent call last):\n  File "a", line 3\n'
                "KeyError: 'sesame'"
            ),
            None,
        ),
    ],
)
def test_what_an_event_held_is_for_debugging_alone(printed: str, told: list[str] | None) -> None:
    driver_log = DriverLog()
    lines = [driver_log.feed(line) for line in printed.split("\n")]
    loud = [line.text for line in lines if line.level != "debug"]
    assert loud, "that something failed is said"
    assert "sesame" not in str(loud) + driver_log.decisive
    if told is not None:
        assert loud == told


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=20)), st.integers(1, 7))
def test_lines_come_out_as_they_went_in_however_they_were_cut(lines: list[str], size: int) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    splitter = Splitter()
    found = [line for at in range(0, len(data), size) for line in splitter.feed(data[at : at + size])]
    assert found == lines
    assert splitter.end() == []


def test_a_line_without_end_is_cut_and_takes_no_memory() -> None:
    splitter = Splitter()
    found = [line for _ in range(100) for line in splitter.feed(b"x" * 10_000)]
    assert all(len(line) == LONGEST for line in found)
    assert len(found) == 100 * 10_000 // (70_000)
