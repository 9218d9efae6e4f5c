"""What a task of a Python source costs beside its rows.

PySpark gives a worker process one task after the other, and has it collect garbage between two. The collection
looks at each object of each imported module, some 80,000: 42 ms of processor a task,
in which 15 MB of a log could be read.

By TCP, Spark's default, an empty task takes 53 ms, in which the worker waits for the JVM. By Unix sockets it takes
16 ms. Spark has them since 4.1; an older one does not know the setting.
"""

import gc
import os
import sys
from typing import Final

REUSED: Final = "SPARK_REUSE_WORKER"  # in the environment of such a process, as PySpark's own daemon asks for it
QUICK_TASKS: Final = {"spark.python.unix.domain.socket.enabled": "true"}  # settings of a session

_modules = 0  # that were imported when the last collection by `settle` was done


def settle() -> None:
    """To be called behind the rows of a task. What is there after the first task stays for the worker's life, so
    later collections need not look at it. Without a Spark worker it does nothing."""
    global _modules
    if REUSED in os.environ and len(sys.modules) != _modules:  # a task may be the first that needs pandas
        _modules = len(sys.modules)
        gc.collect()
        gc.freeze()
