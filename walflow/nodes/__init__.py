"""What a block passes between a connector that reads and one that writes. Nothing here needs an event loop: all are plain
calls, and all they ask of a loop is a `Scheduler`.

`build` makes the nodes of an Assembly and links them; `upstream` tells them of each other. A block begins in a run of a
`source`. Its bytes become events (`ingress`, `staged`) and get a receipt (`streams`, or the connector made it), and they
count in a `window` until it is settled. It goes on by `fanout`, through operators, and ends in `sink`, in the codec and
framing of that sink (`recode`). What is refused leaves by `rejects`. A `gate` is how a sink stops its sources. `health`,
`measures` and `standstill` say how it goes.
"""
