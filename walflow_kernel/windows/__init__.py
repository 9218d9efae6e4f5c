"""What windows keep, and what `aggr::` makes of it.

A select with windows keeps for each group one list a window, its frame: plain values, so that a state can be written
and read back. `frame` says what stands where, `aggregates` how each function fills its slots, `sketches`, `hdr` and
`dds` how percentiles are kept, `groups` what two events have in common that belong to one group, `ticks` when a
window is due. Generated code (`walflow.compile.frames`) does the usual cases in line and calls these for the others.
"""
