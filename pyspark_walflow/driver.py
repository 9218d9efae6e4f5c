"""`python -m pyspark_walflow.driver`: the process in which walflow runs a pipeline on Spark.

stdin: the plan, one line of JSON; then `stop`, when the running batch is to be the last one. Its end means that the
daemon is gone, and everything here goes with it. What there is to say goes to the descriptor that the plan names,
a JSON object a line; stdout and stderr are Spark's and the job's own.
"""

import json
import os
import signal
import sys
import threading
import time
from importlib import import_module
from typing import TYPE_CHECKING, Final

from pyspark_walflow.condense import JobRefusal, condense, refused_conf
from pyspark_walflow.java import NoJava, find_java
from pyspark_walflow.progress import Progress
from pyspark_walflow.query import Plan, check, compile_job, keep_query, refuse_change, session, start
from pyspark_walflow.requirement import install_line, is_too_old, oldest

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

EX_CONFIG: Final = 78
LOOK: Final = 0.5  # seconds between two looks at the queries
LOOK_STOPPING: Final = 0.05


def main() -> int:
    plan = Plan.parse(sys.stdin.readline())
    os.set_inheritable(plan.report, False)  # the JVM must not hold it open
    report = Report(plan.report)
    stop = Stop()
    threading.Thread(target=_follow_daemon, args=(stop,), daemon=True).start()
    try:
        return _run(plan, report, stop)
    except BaseException as error:  # noqa: BLE001  # the daemon is told of any error
        trouble = condense(error, plan.checkpoint, plan.job)
        report.say(
            "refused" if trouble.lasting else "failed",
            message=trouble.message,
            excerpt=trouble.excerpt,
            hint=trouble.hint,
            text=trouble.text,
        )
        return EX_CONFIG if trouble.lasting else 1


class Report:
    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)

    def say(self, event: str, **fields: object) -> None:
        self._file.write(json.dumps({"event": event, **fields}) + "\n")


class Stop(threading.Event):
    """Asked for. `running`: there are batches, and so something to wait for."""

    running = False


def _follow_daemon(stop: Stop) -> None:
    for line in sys.stdin:
        if line.strip() == "stop":
            stop.set()
            if not stop.running:
                os._exit(0)  # a JVM that loses this process ends, too
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # the JVM is of this group; its Python workers end with it
    os._exit(1)


def _run(plan: Plan, report: Report, stop: Stop) -> int:
    found = versions()
    if plan.job is not None:
        compile_job(plan.job)
    elif not plan.check:
        refuse_change(plan)
    try:
        spark = session(plan)
        spark.conf.get("spark.sql.session.timeZone")  # Spark looks at most settings now, and not before
    except Exception as error:
        if (refusal := refused_conf(error)) is not None:
            raise refusal from None
        raise
    page = spark.sparkContext.uiWebUrl
    report.say("session", master=plan.chosen_master, **found, **({"page": page} if page else {}))
    if plan.check:
        check(spark, plan)
        report.say("sound")
    else:
        queries = start(spark, plan)
        stop.running = True
        _watch(queries, plan, report, stop)
        report.say("stopped" if stop.is_set() else "ended")
    spark.stop()
    return 0


def versions() -> dict[str, str]:
    """Raises JobRefusal, with the line to type."""
    try:
        java = find_java()
    except NoJava as error:
        raise JobRefusal(str(error)) from None
    found: dict[str, str] = {}
    for package in ("pyspark", "pyarrow"):
        try:
            found[package] = str(import_module(package).__version__)
        except ImportError:
            raise JobRefusal(f"{sys.executable} has no {package}: {install_line()}") from None
    version = found["pyspark"]
    if is_too_old(version):
        raise JobRefusal(f"pyspark {version} is too old, walflow needs {oldest()} or newer: {install_line()}")
    return {"spark": version, "java": str(java)}


def _watch(queries: list["StreamingQuery"], plan: Plan, report: Report, stop: Stop) -> None:
    """Until they end, or one of them fails. A query that is asked to stop ends with the batch it is at."""
    report.say("running", queries=[str(query.id) for query in queries])
    progress = {query.id: Progress(query) for query in queries}
    kept = False
    while progress:
        stopping = stop.wait(LOOK) if not stop.is_set() else True
        for each in list(progress.values()):
            for batch in each.new():
                if plan.job is None and not kept:
                    keep_query(plan)
                    kept = True
                report.say("batch", **batch)
            error = each.query.exception()
            if error is not None:
                if len(queries) > 1:
                    others = ", ".join(_named(query) for query in queries if query.id != each.query.id)
                    error.add_note(f"{_named(each.query)} failed, beside {others}")
                raise error
            if stopping and each.may_stop():
                each.query.stop()
            if not each.query.isActive:
                del progress[each.query.id]
        if stopping:
            time.sleep(LOOK_STOPPING)


def _named(query: "StreamingQuery") -> str:
    return f"query {query.name or query.id}"


if __name__ == "__main__":
    sys.exit(main())
