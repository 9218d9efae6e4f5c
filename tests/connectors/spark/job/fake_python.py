#!/usr/bin/env python3
"""Stands in for an interpreter with Spark: does what FAKE says, in the words of pyspark_walflow.driver."""

import json
import os
import signal
import subprocess
import sys
import time

plan = json.loads(sys.stdin.readline())
report = os.fdopen(plan["report"], "w", buffering=1)
mode = os.environ["FAKE"]
assert sys.argv[1:] == ["-m", "pyspark_walflow.driver"], sys.argv


def say(event: str, **fields: object) -> None:
    report.write(json.dumps({"event": event, **fields}) + "\n")


def batch(number: int) -> None:
    say("batch", query="q", batch=number, rows=10, seconds=0.5, state_rows=3, late_rows=1)


if mode == "dies":
    say("running", queries=["q"])
    batch(1)
    sys.stderr.write("Traceback (most recent call last):\n  File ...\nMemoryError: no more\n")
    sys.exit(3)
if mode == "refuses":
    say("refused", message="[PARSE] at 'whre'", excerpt=[" whre x", " ^^^^"], hint="spell it", text="long")
    sys.exit(78)
if mode == "refuses-later":
    counter = os.environ["FAKE_COUNTER"]
    with open(counter, "a") as file:
        file.write(".")
    if os.path.getsize(counter) == 1:
        say("running", queries=["q"])
        batch(1)
        sys.exit(1)
    say("refused", message="[TABLE] gone", excerpt=[], hint="", text="")
    sys.exit(78)
if mode == "no-jvm":
    sys.stderr.write(
        'Exception in thread "main" org.apache.spark.SparkException: Executor memory must be a number\n\tat a.b\n'
    )
    sys.stderr.flush()
    say("failed", message="[JAVA_GATEWAY_EXITED] Java gateway process exited", excerpt=[], hint="", text="")
    sys.exit(1)
if mode == "silent":
    sys.exit(5)

say("running", queries=["q"])
# the JVM, which shares its output: a line in one write, that none of ours gets between
child = subprocess.Popen([sys.executable, "-c", r"import os, time; os.write(1, b'child\n'); time.sleep(600)"])
sys.stdout.write(f"child {child.pid}\n")
sys.stdout.flush()
if mode == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
assert sys.stdin.readline() == "stop\n"
sys.stderr.write("26/11/21 23:28:54 ERROR Shell: Interrupted while joining\n")
batch(2)
say("stopped")
sys.stdout.write("ended well\n")
sys.stdout.flush()
child.kill()
