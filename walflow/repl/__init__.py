"""`walflow repl`: expressions and scripts over an event, a line at a time.

`session` takes a line and gives lines to print; it knows no terminal. `completion` says how a word may go on.
`walflow.cli.repl` has the prompt.
"""

from walflow.repl.completion import completions
from walflow.repl.session import Answer, ReplSession

__all__ = ["Answer", "ReplSession", "completions"]
