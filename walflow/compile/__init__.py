"""Pipelines -> Python source that takes a block of events at a time.

`nodes` are the expressions as a file has them. `resolve` looks up their names and evaluates what does not depend on the
event (`fold`, `depends`). The result is a term (`program`). A `region` has the selects and scripts that streams link;
`compiling` writes one function for it, and `compiled` is what the caller gets. In it, `reads` decodes the parts of an event that are read and binds its paths,
`expressions` writes terms as statements, `listing` keeps lines, places and constants. The function calls
`walflow_kernel`.

Read `program` first, then `region` and `compiling`. `walflow check --python FLOW` prints the source for a flow.
"""
