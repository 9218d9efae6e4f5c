"""Avro with a schema registry, by the protocol of Confluent's (the extra `[avro]`).

`connector` is what a flow file says, `registry` asks the registry and remembers, `translating` is one run: blocks in
the registry's wire format become blocks of Avro, or the other way.
"""

from walflow import WalflowError, lacks

try:
    import fastavro as _  # noqa: F401  # schemas arrive while events wait: better now than then

    from connectors.registry.connector import SchemaRegistry
except ModuleNotFoundError as missing:
    if missing.name != "fastavro":
        raise
    raise WalflowError(lacks("it", "avro")) from missing

__all__ = ["SchemaRegistry"]
