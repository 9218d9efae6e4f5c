"""The way of a block from a connector that reads to a connector that writes.

Nothing here needs an event loop. All are plain calls; what they need of a loop is a `Scheduler`. `build` makes the
nodes of an Assembly and links them. `upstream` tells nodes of each other.

A block begins in a run of a `source`. Bytes become events (`ingress`, `staged`). The events get a receipt (`streams`,
or the connector made it) and count in a `window` until they are settled. The block goes on by `fanout`, through
operators, and ends in `sink`, in the codec and framing of that sink (`recode`). Rejected events leave by `rejects`.

A sink stops its sources by a `gate`. `health`, `measures` and `standstill` report the state.
"""
