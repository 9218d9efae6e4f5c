"""What the commands `walflow wal ...` do to a log: they look into one, repair one, or make one. The log itself uses
none of them.

    inspect   looks into a log, also while a daemon has it: stats, check, dump, export
    repair    moves away what stops a start
    skip      acks events that no sink takes, after their bytes are kept
    rename    gives the mark of a sink another name
    build     makes a log from records that have positions already: import
"""
