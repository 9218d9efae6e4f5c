"""Pipelines -> Python source that takes a block of events at a time.

`nodes` is what an expression looks like in a file. `resolve` looks its names up and works out what needs no event (`fold`,
`depends`), so that a term (`program`) is left. `region` takes the selects that streams link, and writes one function of
them: `reads` decodes what is read of an event and binds its paths, `expressions` writes a term as statements, `listing`
keeps lines, places and constants. What the function calls is `walflow_kernel`. Read `program`, then `region`; to see what
comes of a flow: `walflow check --python FLOW`.
"""
