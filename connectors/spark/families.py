"""The metrics of the log that Spark reads, and of the pipeline that runs there."""

from typing import Final

from walflow import Families, Family
from walflow.delivery import LOG_FAMILIES
from walflow.net import CERTIFICATE_FAMILIES, SERVER_FAMILIES

SPARK: Final[Families] = {
    "spark_lag_events": Family("gauge", "Events that the consumer has not committed.", ("consumer",)),
    "spark_owed_events": Family("gauge", "Events that were served to the consumer and not committed.", ("consumer",)),
    "consumer_position": Family("gauge", "The first position that the consumer has not committed.", ("consumer",)),
    "consumer_away_seconds": Family(
        "gauge",
        "How long events have waited for the consumer without a connection of it; 0 while it has one.",
        ("consumer",),
    ),
    "spark_sessions": Family("gauge", "Connections from Spark that have proved the token or a ticket and are open."),
    "spark_served_events_total": Family("counter", "Events that Spark read, each time it read them."),
    "spark_served_bytes_total": Family("counter", "Bytes of the log that Spark read, headers included."),
    "spark_commits_total": Family("counter", "Commits of consumers that moved their position."),
    "spark_running": Family("gauge", "1 while the pipeline on Spark runs, 0 while its driver starts."),
    "spark_restarts_total": Family("counter", "How often the pipeline's driver ended and was started again."),
    "spark_input_rows_total": Family("counter", "Rows that the pipeline's batches have read."),
    "spark_input_rows_per_second": Family("gauge", "Rows per second of the last batch."),
    "spark_batch_seconds": Family("histogram", "How long a batch of the pipeline on Spark took, in seconds."),
    "spark_state_rows": Family("gauge", "Rows that the pipeline keeps between batches, for example of open windows."),
    "spark_late_rows_total": Family(
        "counter",
        "Rows dropped because they were older than the watermark. Spark combines rows of a batch before it "
        "counts these.",
    ),
    "spark_refused_total": Family("counter", "Connections and requests of Spark that were answered with an error."),
    "spark_published_batches_total": Family("counter", "Batches of results that were published."),
    "spark_published_rows_total": Family("counter", "Rows in published batches of results."),
    "spark_repeated_batches_total": Family("counter", "Batches that Spark published again and the daemon ignored."),
    "spark_staged_bytes": Family("gauge", "Bytes of results that Spark has written and not published."),
    "spark_orphaned_stages_total": Family(
        "counter", "Results of a task that were never published, removed after an hour."
    ),
    "spark_results_backlog_events": Family("gauge", "Rows that are published and that not every sink has acked."),
    "spark_results_fill_ratio": Family("gauge", "Share of their budget that the results' records take, 0 to 1."),
    "refused_connections_total": SERVER_FAMILIES["refused_connections_total"],
    **CERTIFICATE_FAMILIES,
    **LOG_FAMILIES,
}
