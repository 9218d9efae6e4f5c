"""Which codec a body has: by its media type, as in tremor's `mime_mapping`."""

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from walflow import Codec, codecs

ANY: Final = "*/*"
TYPES_OF: Final = {
    "json": "application/json",
    "csv": "text/csv",
    "string": "text/plain",
    "msgpack": "application/msgpack",
    "yaml": "application/yaml",
    "binary": "application/octet-stream",
    "syslog": "text/plain",
    "influx": "text/plain",
    "statsd": "text/plain",
    "dogstatsd": "text/plain",
}


class MappedCodec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="The codec's name.")
    config: Mapping[str, object] = Field(default={}, description="The codec's configuration.")


MimeMapping = Mapping[str, str | MappedCodec]


class MediaTypes:
    """`otherwise`: the codec where neither the type nor `*/*` is in the mapping."""

    def __init__(self, mapping: MimeMapping, otherwise: Codec) -> None:
        self._codecs = {name.lower(): codec_named(named) for name, named in mapping.items()}
        self._otherwise = otherwise
        self._types = TYPES_OF | {codec.name: name for name, codec in self._codecs.items() if name != ANY}

    def __repr__(self) -> str:
        return f"<MediaTypes {', '.join(self._codecs)}>"

    def codec_of(self, content_type: str) -> Codec:
        """`content_type`: as in the header, or ""."""
        essence = content_type.partition(";")[0].strip().lower()
        return self._codecs.get(essence) or self._codecs.get(ANY) or self._otherwise

    def type_of(self, codec: Codec) -> str:
        return self._types.get(codec.name, "application/octet-stream")


def codec_named(named: str | MappedCodec) -> Codec:
    """Raises WalflowError."""
    return codecs.make(named) if isinstance(named, str) else codecs.make(named.name, named.config)


def check(mapping: MimeMapping | None) -> MimeMapping | None:
    """Raises ValueError."""
    for name, named in (mapping or {}).items():
        if not all(name.partition("/")) or name.count("/") > 1 or ";" in name:
            raise ValueError(f"{name!r} is no media type: `application/json`, say, or `*/*` for all others")
        codec_named(named)
    return mapping
