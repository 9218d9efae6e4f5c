"""Errors of Spark 4.3.0 as they came, and what is told of them."""

from pathlib import Path

import pytest

from pyspark_walflow.condense import SHOWN, JobRefusal, condense, one_line, refused_conf
from pyspark_walflow.discreet import LEFT_OUT, TRACEBACK
from pyspark_walflow.query import load_job


class AnalysisException(Exception):
    """Known by its name: this package must be importable without Spark."""


PARSE = (
    "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'whre'. SQLSTATE: 42601 (line 3, pos 1)\n\n== SQL ==\n"
    "select value,\n  from in\n whre x\n-^^^\n"
)
ANALYSIS = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `valu` cannot be "
    "resolved. Did you mean one of the following? [`value`]. SQLSTATE: 42703; line 1 pos 7;\n'Project ['valu]\n"
    "+- ~SubqueryAlias in"
)
STREAM = (
    "[STREAM_FAILED] Query [id = 6ac0f291-0686, runId = bf0a5e27-0d4b] terminated with exception: "
    "[USER_RAISED_EXCEPTION] '(value < 5)' is not true! SQLSTATE: P0001 SQLSTATE: XXKST\n=== Streaming Query ===\n"
    "Identifier: [id = 6ac0f291-0686]\nCurrent Committed Offsets: {}"
)
PYTHON = (
    "[STREAM_FAILED] Query [id = aa3b, runId = ad6d] terminated with exception: [PYTHON_EXCEPTION] An exception was thrown"
    ' from the Python worker: Traceback (most recent call last):\n  File "worker.py", line 4207, in invoke_udf\n'
    "    import pyarrow as pa\nModuleNotFoundError: No module named 'pyarrow'\n SQLSTATE: 38000 SQLSTATE: XXKST\n"
    "=== Streaming Query ===\n"
)
JAVA = (
    "An error occurred while calling o25.start.\n: org.apache.spark.SparkException: no space left\n"
    "\tat org.apache.X(Y.scala)"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PARSE, "[PARSE_SYNTAX_ERROR] Syntax error at or near 'whre'. (line 3, pos 1)"),
        (
            ANALYSIS,
            (
                "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `valu` "
                "cannot be resolved. Did you mean one of the following? [`value`]. line 1 pos 7"
            ),
        ),
        (STREAM, "[USER_RAISED_EXCEPTION] '(value < 5)' is not true!"),  # `condense` leaves the text out
        (PYTHON, "ModuleNotFoundError: No module named 'pyarrow'"),
        (JAVA, "no space left"),
        ("walflow.error: position 5 is gone", "position 5 is gone"),
    ],
)
def test_one_line_is_told(text: str, line: str) -> None:
    assert one_line(text) == line


def test_the_caret_stands_under_its_line() -> None:
    trouble = condense(AnalysisException(PARSE), "ck")
    assert trouble.excerpt == (" whre x", " ^^^")
    assert trouble.lasting


def test_what_fails_on_data_may_be_tried_again() -> None:
    assert not condense(RuntimeError(STREAM), "ck").lasting


@pytest.mark.parametrize(
    "text",
    [
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match",
        (
            "[STREAM_FAILED] Query [id = a] terminated with exception: "
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] x"
        ),
    ],
)
def test_a_checkpoint_of_another_query_comes_with_what_to_do(text: str) -> None:
    trouble = condense(RuntimeError(text), "/var/ck")
    assert trouble.lasting
    assert "name another `checkpoint`" in trouble.hint
    assert "/var/ck" in trouble.hint


def test_a_refusal_keeps_its_advice() -> None:
    trouble = condense(JobRefusal("it does not", "do this"), "ck")
    assert (trouble.message, trouble.hint, trouble.lasting) == ("it does not", "do this", True)


def test_a_jobs_error_names_its_line(tmp_path: Path) -> None:
    job = tmp_path / "hosts.py"
    job.write_text("def pipeline(spark, stream):\n    raise KeyError('amount')\n")
    with pytest.raises(KeyError) as raised:
        load_job(str(job))(None, None)  # type: ignore[arg-type]
    assert condense(raised.value, "ck", str(job)).message == f"{job}:2: KeyError: 'amount'"


class IllegalArgumentException(Exception):
    """As Spark's is: known by its name."""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            IllegalArgumentException(
                "[INVALID_CONF_VALUE.TIME_ZONE] The value 'Mars' in the config \"x\" is invalid. SQLSTATE: 22022"
            ),
            "[INVALID_CONF_VALUE.TIME_ZONE] The value 'Mars' in the config \"x\" is invalid.",
        ),
        (
            RuntimeError(JAVA.replace("no space left", "Could not parse Master URL: 'locale'")),
            "Could not parse Master URL: 'locale'",
        ),
        (RuntimeError(JAVA), None),
    ],
)
def test_a_setting_that_is_wrong_is_refused_for_good(error: Exception, line: str | None) -> None:
    refusal = refused_conf(error)
    assert (refusal and str(refusal)) == line
    assert refusal is None or "spark-defaults.conf" in refusal.hint


FAILED = "[STREAM_FAILED] Query [id = aa3b, runId = ad6d] terminated with exception: "
CONTEXT = "\n== SQL (line 1, position 8) ==\nselect cast(value as int) from in\n       ^^^^^^^^^^^^^^^^^^\n"
MISCAST = (
    f'{FAILED}[CAST_INVALID_INPUT] The value \'sesame\' of the type "STRING" cannot be cast to "INT" because it is '
    f"malformed. SQLSTATE: 22018{CONTEXT} SQLSTATE: XXKST\n=== Streaming Query ===\n"
)
RAISED = PYTHON.replace("ModuleNotFoundError: No module", "ValueError: sesame")
OURS = (
    f"{FAILED}[X] Failed when perform read: walflow.error: position 5 is gone\n\n{TRACEBACK}\n"
    '  File "r.py", line 1\nwalflow.WalflowError: position 5 is gone\n SQLSTATE: 38000'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MISCAST, f"[CAST_INVALID_INPUT] an event does not fit the query; {LEFT_OUT}"),
        (
            STREAM.replace("(value < 5)", "sesame"),
            f"[USER_RAISED_EXCEPTION] an event does not fit the query; {LEFT_OUT}",
        ),
        (RAISED, f"ValueError at worker.py:4207; {LEFT_OUT}"),
        (PYTHON, "ModuleNotFoundError: No module named 'pyarrow'"),
        (
            f'{FAILED}java.lang.NumberFormatException: For input string: "sesame"',
            f"NumberFormatException; {LEFT_OUT}",
        ),
        (JAVA, "no space left"),
        (OURS, "position 5 is gone"),
    ],
)
def test_what_an_event_held_is_not_told(text: str, message: str) -> None:
    trouble = condense(RuntimeError(text), "ck", "job.py")
    assert trouble.message == message
    assert "sesame" not in str(trouble._replace(text=""))
    assert trouble.hint == (SHOWN if LEFT_OUT in message else "")
    assert not trouble.lasting


def test_of_what_user_code_calls_the_line_of_the_job_is_told() -> None:
    text = RAISED.replace(
        "ValueError", '  File "/jobs/job.py", line 7, in f\n  File "/lib/pandas/x.py", line 1, in g\nValueError'
    )
    assert condense(RuntimeError(text), "ck", "/jobs/job.py").message == f"ValueError at /jobs/job.py:7; {LEFT_OUT}"
    assert condense(RuntimeError(text), "ck").message == f"ValueError at /lib/pandas/x.py:1; {LEFT_OUT}"


def test_the_query_that_an_event_did_not_fit_is_shown() -> None:
    text = f"[CAST_INVALID_INPUT] The value 'a\n== SQL ==\nsesame\n^^^' SQLSTATE: 22018{CONTEXT}"
    assert condense(RuntimeError(text), "ck").excerpt[0] == "select cast(value as int) from in"


@pytest.mark.parametrize(
    "line",
    [
        "h:1: consumer 'spark' belongs to another checkpoint, which committed all below 5 at 2026",
        "h:1: consumer 'spark' is read by a since b, and c asks for it too. A consumer is read once: a second",
        "this query reads log a, and at h:1 there is log b: go to the daemon that has the first",
    ],
)
def test_what_only_a_person_can_change_is_not_tried_again(line: str) -> None:
    text = (
        f'{FAILED}[X] Failed: walflow.error: {line}\n\n{TRACEBACK}\n  File "r", line 1\n'
        f"walflow.WalflowError: {line}\n"
    )
    trouble = condense(RuntimeError(text), "ck")
    assert trouble.lasting
    assert trouble.message == line


def test_which_of_several_queries_failed_is_said() -> None:
    error = RuntimeError(MISCAST)
    error.add_note("query one failed, beside query two")
    assert condense(error, "ck").hint == f"query one failed, beside query two; {SHOWN}"
