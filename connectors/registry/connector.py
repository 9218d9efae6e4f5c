"""The connectors: their keys, and what runs with them."""

from connectors.registry.keys import SchemaRegistryKeys
from connectors.registry.registry_run import SchemaRegistryRun
from walflow import Inlet, Outlet


class SchemaRegistry(SchemaRegistryKeys):
    """Avro whose schemas are in a registry with Confluent's protocol. An event that comes in is sent out again in the
    other form. `decode`: from the registry's wire format (a zero byte, 4 bytes of the schema's id, the value) to the
    value. `encode`: from the value to the wire format. [Kafka](../../howto/kafka.md#avro-with-a-schema-registry)
    shows both."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await SchemaRegistryRun(self, inlet, out).run()
