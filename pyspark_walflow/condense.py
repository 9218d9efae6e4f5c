"""What Spark says in hundreds of lines, in one; and the lines with its caret, where it has one."""

import re
import traceback
from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark_walflow import discreet
from pyspark_walflow.discreet import OURS, TRACEBACK


class JobRefusal(Exception):
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


SHOWN: Final = "--log-level debug shows all that Spark said"
_TERMINATED: Final = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
_STATE: Final = re.compile(r" *\bSQLSTATE: \w+;?")
_MODULE: Final = re.compile(r"^(?:\w+\.)+(?=[A-Z]\w*: )")
_CARET: Final = re.compile(r"^[-\s]*\^+\s*$")
_JAVA: Final = re.compile(r"(?m)^: (?:[\w$]+\.)+[\w$]+: (.*)")
_CHECKPOINT: Final = re.compile(
    r"\[(STATE_STORE_\w*SCHEMA\w*|\w*NOT_COMPATIBLE\w*|STREAMING_STATEFUL_OPERATOR_\w+|STREAM_METADATA\w*"
    r"|CANNOT_LOAD_STATE_STORE\w*|CHECKPOINT\w*|UNSUPPORTED_STREAM\w*OFFSET\w*)"
)
_SETTING: Final = re.compile(
    r"Could not parse Master URL|\[INVALID_CONF_VALUE|NumberFormatException|IllegalArgumentException"
)
_STANDING: Final = re.compile(  # our own lines, of what only a person can change; they say how
    r"belongs to another checkpoint|asks for it too\. A consumer|this query reads log |the checkpoint is of "
    r"|no consumer '"
)


def refused_conf(error: BaseException) -> JobRefusal | None:
    """Of an error of a session's beginning, if a setting is what is wrong."""
    line = one_line(str(error))
    known = any(base.__name__ == "IllegalArgumentException" for base in type(error).__mro__)
    if not known and not _SETTING.search(line):
        return None
    return JobRefusal(line, "it stands in `conf` or `master` of the connector, or in Spark's own spark-defaults.conf")


def condense(error: BaseException, checkpoint: str, job: str | None = None) -> Trouble:
    """`job`: the user's file, whose line is named where it raised."""
    text = str(error)
    message = one_line(text) or type(error).__name__
    if isinstance(error, JobRefusal):
        return Trouble(message, (), error.hint, True, text)
    others = _CHECKPOINT.search(text) is not None
    hint = ""
    if others:
        hint = (
            f"the checkpoint in {checkpoint} does not fit this query: put the query back that made it, or name "
            "another `checkpoint` to begin anew behind what is committed (windows that are open in the old one are "
            "lost, and rows of its last batch may come twice; files that a job writes go into another directory)"
        )
    mistaken = any(base.__name__ == "AnalysisException" for base in type(error).__mro__)
    place = _place(error, job) if job is not None else ""
    if not mistaken and not place:
        whole, message = message, _discreet(text, message, job)
        hint = hint or (SHOWN if message != whole else "")
    hint = "; ".join([*getattr(error, "__notes__", ()), *([hint] if hint else [])])
    message = place + message
    lasting = others or mistaken or _STANDING.search(message) is not None
    return Trouble(message, excerpt(error), hint, lasting, text)


def _discreet(text: str, line: str, job: str | None) -> str:
    """`line`, which is what `text` comes to, without what an event held; with the line of the job, where it comes
    from there."""
    if TRACEBACK not in text:
        return discreet.of_spark(text, line)
    raised = last_of_traceback(text)
    if OURS.match(raised):
        return line
    places = [place for each in text.splitlines() if (place := discreet.place_of(each))]
    own = [place for place in places if job is not None and place.rpartition(":")[0] == job]
    return _MODULE.sub("", discreet.of_python(raised, [*places, *own][-1] if places else ""))


def one_line(text: str) -> str:
    text = _TERMINATED.sub("", text.strip())
    java = _JAVA.search(text)
    if java:  # An error occurred while calling o25.start. : org.apache.spark.SparkException: what it is
        text = java[1]
    text = text.split("\n=== Streaming Query ===")[0].split("\n== SQL")[0]
    if TRACEBACK in text:
        text = last_of_traceback(text) or text
    first = next((line for line in text.splitlines() if line.strip()), "")
    return _MODULE.sub("", OURS.sub("", " ".join(_STATE.sub("", first).split()))).rstrip("; ")


def last_of_traceback(text: str) -> str:
    """`KeyError: 'amount'`, of however many tracebacks in a row."""
    lines = text[text.rindex(TRACEBACK) :].splitlines()[1:]
    told = [line for line in lines if line.strip() and not line[0].isspace() and not line.startswith("\tat ")]
    return told[0] if told else ""


def excerpt(error: BaseException) -> tuple[str, ...]:
    for text in (str(error), *_contexts(error)):
        lines = text.rpartition("\n== SQL")[2].splitlines() if "\n== SQL" in text else []  # values stand before it
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
