"""What Spark's queries bring back: staged by tasks, published by the driver once per (query, batch), sent on `out`.

Read them in this order:

    staging        what tasks have written and is not published yet, a file each
    publications   which batch of each query was published last, and which one is being published: one file
    result_log     the log that published rows go through, until every sink has acked them
    publishing     a batch's way from the first to the last, in four durable steps
    results        all of it, put together for a run of the connector
"""
