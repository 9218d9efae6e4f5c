"""Pipelines -> Python source that takes a block of events at a time.

`nodes` are the expressions as a file has them. `lowering` looks up their names and makes of each, from its parts up,
a constant (`folding`) or a term (`program`); `resolve` and `bodies` do so with selects and scripts. A `region` has
the selects and scripts that streams link; `compiling` writes one function for it, and `compiled` is what the caller
gets. In it, `reads` decodes the parts of an event that are read and binds its paths, `expressions` writes terms as
statements, `listing` keeps lines, places and constants. The function calls `walflow_kernel`.

Read `program` first, then `region` and `compiling`. `walflow check --python FLOW` prints the source for a flow.
"""
