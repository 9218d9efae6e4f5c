"""What Spark says in hundreds of lines, in one; and the lines with its caret, where it has one."""

import re
import traceback
from collections.abc import Sequence
from typing import Final, NamedTuple


class Refusal(Exception):
    """Trying again would only say it again. The text is one line; `hint`: what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Trouble(NamedTuple):
    """`excerpt`: the line of SQL and Spark's caret under it. `lasting`: another try would meet it again."""

    message: str
    excerpt: tuple[str, ...]
    hint: str
    lasting: bool
    text: str  # all that Spark said


_TERMINATED: Final = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
_TRACEBACK: Final = "Traceback (most recent call last):"
_STATE: Final = re.compile(r" *\bSQLSTATE: \w+;?")
_OURS: Final = re.compile(
    r"^(?:walflow|pyspark_walflow)\.\w+(?:\.\w+)*: "
)  # the name of the exception before its line
_MODULE: Final = re.compile(r"^(?:\w+\.)+(?=[A-Z]\w*: )")
_CARET: Final = re.compile(r"^[-\s]*\^+\s*$")
_JAVA: Final = re.compile(r"(?m)^: (?:[\w$]+\.)+[\w$]+: (.*)")
_CHECKPOINT: Final = re.compile(
    r"\[(STATE_STORE_\w*SCHEMA\w*|\w*NOT_COMPATIBLE\w*|STREAMING_STATEFUL_OPERATOR_\w+|STREAM_METADATA\w*"
    r"|CANNOT_LOAD_STATE_STORE\w*|CHECKPOINT\w*|UNSUPPORTED_STREAM\w*OFFSET\w*)"
)


def condense(error: BaseException, checkpoint: str, job: str | None = None) -> Trouble:
    """`job`: the user's file, whose line is named where it raised."""
    text = str(error)
    message = one_line(text) or type(error).__name__
    if isinstance(error, Refusal):
        return Trouble(message, (), error.hint, True, text)
    others = _CHECKPOINT.search(text) is not None or "[wrong-log]" in text
    hint = ""
    if others:
        hint = (
            f"the checkpoint in {checkpoint} does not fit this query: put the query back that made it, or name another "
            "`checkpoint` to begin anew (windows that are open in the old one are lost)"
        )
    mistaken = any(base.__name__ == "AnalysisException" for base in type(error).__mro__)
    if job is not None:
        message = _place(error, job) + message
    return Trouble(message, excerpt(error), hint, others or mistaken, text)


def one_line(text: str) -> str:
    text = _TERMINATED.sub("", text.strip())
    java = _JAVA.search(text)
    if java:  # An error occurred while calling o25.start. : org.apache.spark.SparkException: what it is
        text = java[1]
    text = text.split("\n=== Streaming Query ===")[0].split("\n== SQL")[0]
    if _TRACEBACK in text:
        text = last_of_traceback(text) or text
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _MODULE.sub("", _OURS.sub("", " ".join(_STATE.sub("", first).split()))).rstrip("; ")


def last_of_traceback(text: str) -> str:
    """`KeyError: 'amount'`, of however many tracebacks in a row."""
    lines = text[text.rindex(_TRACEBACK) :].splitlines()[1:]
    told = [line for line in lines if line.strip() and not line[0].isspace() and not line.startswith("\tat ")]
    return told[0] if told else ""


def excerpt(error: BaseException) -> tuple[str, ...]:
    for text in (str(error), *_contexts(error)):
        lines = text.partition("== SQL")[2].splitlines()
        for number, line in enumerate(lines):
            if number and _CARET.match(line):
                return lines[number - 1], line.replace("-", " ")
    return ()


def _contexts(error: BaseException) -> Sequence[str]:
    try:
        return [str(context.summary()) for context in error.getQueryContext()]  # type: ignore[attr-defined]  # Spark's
    except Exception:  # noqa: BLE001  # some have none, and a JVM that is gone cannot be asked
        return []


def _place(error: BaseException, job: str) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == job]
    return f"{job}:{frames[-1].lineno}: {type(error).__name__}: " if frames else ""
