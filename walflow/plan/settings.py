"""The keys after `with` in the definition of a connector, besides `config`: codec and framings."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, cast

from walflow import codecs, framing
from walflow.compile.constant import Constant, ConstantPart
from walflow.contract import CodecUse, Connector
from walflow.diagnostics import Report, Span, did_you_mean, error, one_of
from walflow.errors import WalflowError
from walflow.event import Codec
from walflow.framing import BadChainOrder, Incoming, Outgoing
from walflow.lang.config import ConnectorConfig
from walflow.plan.validate import field_names
from walflow.plugins import NotLoadable
from walflow.substitutes import substitute
from walflow.warnings import warning
from walflow.warnings.no_effect import NO_EFFECT
from walflow.warnings.separator import SEPARATOR
from walflow_kernel.values import kind_of

WIRE = ("codec", "preprocessors", "postprocessors")
_BESIDE = ("reconnect",)  # keys of some connectors that tremor writes beside `config`
_UNUSED = (*_BESIDE, "metrics_interval_s")
KEYS = ("config", *WIRE, *_UNUSED)

_COUNTERPARTS = {("preprocessor", "compress"): "decompress", ("postprocessor", "decompress"): "compress"}

T = TypeVar("T")


class WireSettings(NamedTuple):
    """The codec and the framings of a connector. None for a connector whose class forbids a codec."""

    codec: Codec | None
    preframing: Incoming | None
    postframing: Outgoing | None


class _Named(NamedTuple):
    name: Constant
    config: Mapping[str, object]
    span: Span


def check_keys(connector: ConnectorConfig, of: type[Connector], report: Report) -> None:
    for key, part in connector.settings.items():
        if key in _BESIDE and key in of.model_fields:
            continue
        if key in _UNUSED:
            report(warning(NO_EFFECT, f"`{key}` is accepted and has no effect yet", part.key))
        elif key not in KEYS:
            report(error(f"unknown key `{key}`", part.key, _hint(key, of)))


def config_of(connector: ConnectorConfig, of: type[Connector]) -> Constant | None:
    """Its `config`, with the keys that stand beside it. If a key stands in both, the outer one counts."""
    part = connector.settings.get("config")
    config = part.constant if part else None
    beside: dict[str | int, ConstantPart] = {
        key: connector.settings[key] for key in _BESIDE if key in connector.settings and key in of.model_fields
    }
    if not beside or (config is not None and not config.is_record):
        return config
    inner = config or Constant({}, connector.defined)
    values = cast(dict[str | int, object], inner.value) | {key: part.constant.value for key, part in beside.items()}
    return Constant(values, inner.span, {**inner.parts, **beside})


def _hint(key: str, of: type[Connector]) -> str:
    if key in field_names(of):
        return f'it belongs into `config`: `config = {{ "{key}": … }}`'
    return did_you_mean(key, KEYS) or f"`with` takes {one_of(KEYS)}"


def wire(connector: ConnectorConfig, of: type[Connector], report: Report) -> WireSettings:
    given = {key: connector.settings[key] for key in WIRE if key in connector.settings}
    if of.traits.codec is CodecUse.FORBIDDEN:
        for key, part in given.items():
            report(error(f"connector type {connector.type.text} takes no `{key}`", part.key, "take it out"))
        return WireSettings(None, None, None)
    if of.traits.codec is CodecUse.REQUIRED and "codec" not in given:
        if connector.complete:
            message = f"connector type {connector.type.text} needs a `codec`"
            report(error(message, connector.defined, 'add `codec = "json"`, say'))
        return WireSettings(None, None, None)
    # no codec given: default to newline-separated
    unsaid: Sequence[framing.Named] = [("separate", {})] if "codec" not in given and not of.traits.messages else []
    make_in = partial(framing.incoming, messages=of.traits.messages)
    make_out = partial(framing.outgoing, messages=of.traits.messages)
    codec = _codec(given["codec"].constant, report) if "codec" in given else codecs.make("json", {})
    if codec is not None and codec.name in codecs.GIVE_ANY_BYTE:
        _warn_of_separators(codec.name, connector, report)
    return WireSettings(
        codec,
        _chain("preprocessors", framing.preprocessors, make_in, connector, report, unsaid),
        _chain("postprocessors", framing.postprocessors, make_out, connector, report, unsaid),
    )


def _warn_of_separators(codec: str, connector: ConnectorConfig, report: Report) -> None:
    """In MessagePack, for example, a newline byte is the number 10."""
    for key, beside in (("preprocessors", -1), ("postprocessors", 0)):
        links = connector.settings[key].constant.parts.values() if key in connector.settings else ()
        names = [name for link in links if (name := link.constant.find(["name"])).value != "remove-empty"]
        if names and names[beside].value == "separate":
            hint = "put `base64` between them, or `length-prefixed` in the place of `separate`"
            report(
                warning(
                    SEPARATOR,
                    f"`separate` beside {codec}: its bytes may hold the separator",
                    names[beside].span,
                    hint,
                )
            )


def _codec(constant: Constant, report: Report) -> Codec | None:
    named = _named(constant, "codec", report)
    if named is None or not _known(named, "codec", codecs.registered, report):
        return None
    try:
        return codecs.make(str(named.name.value), named.config)
    except WalflowError as refused:
        report(error(str(refused), named.span))
        return None


def _chain(
    key: str,
    names: Callable[[], Collection[str]],
    make: Callable[[Sequence[framing.Named]], T],
    connector: ConnectorConfig,
    report: Report,
    unsaid: Sequence[framing.Named],
) -> T | None:
    if key not in connector.settings:
        return make(unsaid)
    constant = connector.settings[key].constant
    if not isinstance(constant.value, list):
        hint = 'write `["separate"]`, say'
        report(error(f"`{key}` takes an array, not {kind_of(constant.value)}", constant.span, hint))
        return None
    what = key.removesuffix("s")
    chain = [_named(part.constant, what, report) for part in constant.parts.values()]
    named = [link for link in chain if link and _known(link, what, names, report)]
    if len(named) < len(chain):
        return None
    try:
        return make([(str(link.name.value), link.config) for link in named])
    except BadChainOrder as refused:
        report(error(str(refused), named[refused.number].span, refused.hint))
    except WalflowError as refused:
        report(error(str(refused), next((link.span for link in named if _is_wrong(link, make)), constant.span)))
    return None


def _is_wrong(link: _Named, make: Callable[[Sequence[framing.Named]], object]) -> bool:
    """Whether the processor itself is wrong, independent of the others."""
    try:
        make([(str(link.name.value), link.config)])
    except BadChainOrder:
        return False
    except WalflowError:
        return True
    return False


def _named(constant: Constant, what: str, report: Report) -> _Named | None:
    """`"separate"` or `{"name": "separate", "config": {…}}`"""
    if isinstance(constant.value, str):
        return _Named(constant, {}, constant.span)
    name, config = constant.find(["name"]), constant.find(["config"])
    if not constant.is_record or name is constant or not isinstance(name.value, str):
        hint = 'write `"json"` or `{"name": "json", "config": {…}}`' if what == "codec" else None
        message = f"a {what} is a name, or a record with `name` and `config`, not {kind_of(constant.value)}"
        report(error(message, constant.span, hint))
        return None
    for key in constant.parts.keys() - {"name", "config"}:
        report(error(f"unknown key `{key}` of a {what}", constant.parts[key].key, "it takes `name` and `config`"))
    if config is constant:
        return _Named(name, {}, constant.span)
    if not config.is_record:
        report(error(f"`config` takes a record, not {kind_of(config.value)}", config.span))
        return None
    return _Named(name, {str(key): part.constant.value for key, part in config.parts.items()}, config.span)


def _known(named: _Named, what: str, known: Callable[[], Collection[str]], report: Report) -> bool:
    name = str(named.name.value)
    try:
        names = sorted(known())
    except NotLoadable as refused:
        report(error(str(refused), named.name.span))
        return False
    if name in names:
        return True
    other = _COUNTERPARTS.get((what, name))
    hint = f"this way it is `{other}`" if other else substitute(what, name) or did_you_mean(name, names)
    hint = hint or f"there are {one_of(names).replace(' or ', ' and ')}"
    report(error(f"unknown {what} `{name}`", named.name.span, hint))
    return False
