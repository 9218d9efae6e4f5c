"""A JSON Schema of the YAML files, for editors. The descriptions of keys are those of the connector's class."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from walflow import codecs
from walflow.contract import Connector
from walflow.lang.legacy.artefacts import RampKind
from walflow.lang.legacy.kinds import KINDS, POSTPROCESSORS, PREPROCESSORS, LegacyKey, LegacyKind

Schema = dict[str, object]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
END: Final = "^(tremor://[^/]*)?/(onramp|offramp|pipeline)/[^/]+/[^/]+(/[^/]+)?$"
MAPPED: Final = "^/binding/[^/]+/[^/]+$"

_ID: Final[Schema] = {"type": "string", "pattern": r"^[^/{}\s]+$"}
_TAKES: Final[Mapping[str, Schema]] = {
    "text": {"type": "string", "minLength": 1},
    "port": {"type": "integer", "minimum": 0, "maximum": 65535},
    "milliseconds": {"type": "integer", "minimum": 1},
    "true or false": {"type": "boolean"},
}


def schema(registry: Mapping[str, type[Connector]]) -> Schema:
    return {
        "$schema": DIALECT,
        "title": "A configuration of tremor 0.11, as walflow runs it",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "onramp": _ramps("onramp", registry),
            "offramp": _ramps("offramp", registry),
            "binding": {"type": "array", "items": _BINDING},
            "mapping": _MAPPING,
        },
    }


_BINDING: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "links"],
    "properties": {
        "id": _ID,
        "description": {"type": "string"},
        "links": {
            "description": "From where, and the list of where to; `{instance}` and other placeholders are filled by "
            "`mapping`.",
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {END: {"type": "array", "items": {"type": "string", "pattern": END}}},
        },
    },
}
_MAPPING: Final[Schema] = {
    "description": "What runs: `/binding/ID/INSTANCE`, and what fills the binding's placeholders.",
    "type": "object",
    "additionalProperties": False,
    "patternProperties": {MAPPED: {"type": ["object", "null"], "additionalProperties": {"type": "string"}}},
}


def _ramps(kind: RampKind, registry: Mapping[str, type[Connector]]) -> Schema:
    """One form for each type; `type` tells which."""
    kinds = {name: of for name, of in KINDS[kind].items() if of.connector in registry}
    return {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["id", "type"],
            "properties": {"type": {"enum": list(kinds)}},
            "oneOf": [_ramp(kind, name, of, registry[of.connector]) for name, of in kinds.items()],
        },
    }


def _ramp(kind: RampKind, name: str, of: LegacyKind, connector: type[Connector]) -> Schema:
    needs_config = any(key.required for key in of.keys.values())
    return {
        "title": f"{kind} {name}",
        "description": f"Here connector type {of.connector}. {_first_paragraph(connector.__doc__ or '')}".strip(),
        "additionalProperties": False,
        "required": ["id", "type", *(["config"] if needs_config else [])],
        "properties": {
            "id": _ID,
            "type": {"const": name},
            "description": {"type": "string"},
            **dict(_wire(of)),
            "linked": {"type": "boolean", "description": "Whether it is linked from both ends."},
            "err_required": {"type": "boolean", "description": "Whether its port `err` must be linked."},
            "metrics_interval_s": {"type": "integer", "description": "Has no effect."},
            "config": _config(of, connector),
        },
    }


def _wire(of: LegacyKind) -> Iterator[tuple[str, Schema]]:
    if of.codec is None:
        yield "codec", {"const": "json"}
        return
    yield "codec", {"enum": sorted(codecs.registered().of("walflow")), "default": of.codec}
    for key, known in (("preprocessors", PREPROCESSORS), ("postprocessors", POSTPROCESSORS)):
        yield key, {"type": "array", "items": {"enum": list(known)}}


def _config(of: LegacyKind, connector: type[Connector]) -> Schema:
    # Any: pydantic returns JSON
    fields: dict[str, Any] = connector.model_json_schema().get("properties", {})
    required = [name for name, key in of.keys.items() if key.required]
    return {
        "type": "object" if required else ["object", "null"],
        "additionalProperties": False,
        "required": required,
        "properties": {name: _value(name, key, fields) for name, key in of.keys.items()},
    }


def _value(name: str, key: LegacyKey, fields: Mapping[str, Any]) -> Schema:
    if key.to is None:
        return {**_TAKES[key.takes], "description": f"Has no effect: {key.without}."}
    about = str(fields.get(key.to, {}).get("description", ""))
    if key.takes == "milliseconds":
        about = "In milliseconds: " + about.removesuffix(", in nanoseconds.") + "."
    elif name in ("host", "port"):
        about = {"host": "Name or address.", "port": "0 to listen on a free one."}[name]
    return {**_TAKES[key.takes], "description": about}


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().partition("\n\n")[0].split())
