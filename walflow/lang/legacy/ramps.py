"""An onramp or offramp -> the type and the settings of a connector. Each value keeps its place in the file."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from walflow.compile.constant import Constant, ConstantPart, derived
from walflow.compile.nodes import Name
from walflow.diagnostics import Diagnostic, Report, Span, did_you_mean, error, one_of
from walflow.lang.legacy.artefacts import Ramp, RampKind
from walflow.lang.legacy.kinds import ABSENT, IN_TROY, KINDS, POSTPROCESSORS, PREPROCESSORS, LegacyKey, LegacyKind
from walflow.warnings import warning
from walflow.warnings.no_effect import NO_EFFECT
from walflow_kernel.values import kind_of

MILLISECOND = 1_000_000


class Converted(NamedTuple):
    """`linked`: it may be linked from both ends. `err_required`: the place of that key; None if it is not there."""

    type: Name
    settings: Mapping[str, ConstantPart]
    linked: bool
    err_required: Span | None


def convert(ramp: Ramp, report: Report) -> Converted | None:
    """None if an error, which was reported, leaves no connector."""
    kind = KINDS[ramp.kind].get(ramp.type.text)
    if kind is None:
        report(_unknown_type(ramp))
        return None
    return _Converting(ramp, kind, report).converted()


def _unknown_type(ramp: Ramp) -> Diagnostic:
    name, known = ramp.type.text, KINDS[ramp.kind]
    listed = one_of(known).replace(" or ", " and ")
    if name in ABSENT[ramp.kind]:
        there = f"a `.troy` file has it: `from {IN_TROY[name]}`" if name in IN_TROY else f"there are {listed}"
        return error(f"{ramp.kind} type `{name}` is not supported", ramp.type.span, there)
    other: RampKind = "offramp" if ramp.kind == "onramp" else "onramp"
    hint = did_you_mean(name, known)
    if hint is None and name in KINDS[other]:
        hint = f"there is an {other} of that type"
    return error(f"unknown {ramp.kind} type `{name}`", ramp.type.span, hint or f"there are {listed}")


class _Converting:
    def __init__(self, ramp: Ramp, kind: LegacyKind, report: Report) -> None:
        self._ramp = ramp
        self._kind = kind
        self._tell = report
        self._sound = True

    def _report(self, diagnostic: Diagnostic) -> None:
        self._sound = self._sound and diagnostic.severity != "error"
        self._tell(diagnostic)

    def converted(self) -> Converted | None:
        settings: dict[str, ConstantPart] = {"config": self._config(), **dict(self._wire())}
        self._warn_of_unused()
        linked = self._flag("linked")
        err_required = self._flag("err_required")
        if not self._sound:
            return None
        span = self._ramp.settings["err_required"].key if err_required else None
        return Converted(Name(self._kind.connector, self._ramp.type.span), settings, linked, span)

    def _config(self) -> ConstantPart:
        part = self._ramp.settings.get("config")
        config = part.constant if part and part.constant.value is not None else Constant({}, self._ramp.id.span)
        if not config.is_record:
            self._report(error(f"`config` takes a record, not {kind_of(config.value)}", config.span))
            config = Constant({}, config.span)
        parts: dict[str | int, ConstantPart] = {
            key: ConstantPart(config.span, derived(value, config.span))
            for key, value in (self._kind.fixed or {}).items()
        }
        for name, given in config.parts.items():
            key = self._kind.keys.get(str(name))
            if key is None:
                self._unknown_key(str(name), given.key)
            elif self._takes(str(name), key, given.constant):
                self._put(str(name), key, given, parts)
        mistyped = {did_you_mean(str(name), self._kind.keys) for name in config.parts if name not in self._kind.keys}
        for name, key in self._kind.keys.items():
            if key.required and name not in config.parts and f"did you mean `{name}`?" not in mistyped:
                self._missing(name, config)
        values = {key: part.constant.value for key, part in parts.items()}
        return ConstantPart(part.key if part else self._ramp.id.span, Constant(values, config.span, parts))

    def _unknown_key(self, name: str, span: Span) -> None:
        known = list(self._kind.keys)
        takes = f"it takes {one_of(known).replace(' or ', ' and ')}" if known else "it takes none"
        message = f"unknown key `{name}` in the config of {self._what()}"
        self._report(error(message, span, did_you_mean(name, known) or takes))

    def _missing(self, name: str, config: Constant) -> None:
        takes = self._kind.keys[name].takes
        example = {"text": "…", "port": "8080", "milliseconds": "1000", "true or false": "true"}[takes]
        entry = f"`{name}: {example}`"
        hint = f"add {entry} to its `config`" if config.parts else f"add `config:` with {entry}"
        self._report(error(f"{self._what()} needs the key `{name}` in its config", self._ramp.id.span, hint))

    def _what(self) -> str:
        return f"{self._ramp.kind} type `{self._ramp.type.text}`"

    def _takes(self, name: str, key: LegacyKey, given: Constant) -> bool:
        value = given.value
        number = value if isinstance(value, int) and not isinstance(value, bool) else None
        match key.takes:
            case "text":
                good = isinstance(value, str) and value != ""
                wanted = "text"
            case "port":
                good = number is not None and 0 <= number <= 65535
                wanted = "a port from 0 to 65535"
            case "milliseconds":
                good = number is not None and 1 <= number < 1 << 43
                wanted = "a whole number of milliseconds from 1 on"
            case "true or false":
                good = isinstance(value, bool)
                wanted = "true or false"
        if not good:
            found = number if number is not None else kind_of(value) if value != "" else "an empty one"
            self._report(error(f"`{name}` takes {wanted}, not {found}", given.span))
        return good

    def _put(self, name: str, key: LegacyKey, given: ConstantPart, parts: dict[str | int, ConstantPart]) -> None:
        value = given.constant.value
        if key.to is None:
            self._report(warning(NO_EFFECT, f"`{name}` has no effect", given.key, key.without))
        elif key.takes == "milliseconds" and isinstance(value, int):
            parts[key.to] = ConstantPart(given.key, Constant(value * MILLISECOND, given.constant.span))
        elif key.to == "url" and name == "port":
            host = parts["url"].constant.value if "url" in parts else ""
            parts["url"] = ConstantPart(given.key, Constant(f"{host}:{value}", given.constant.span))
        elif key.to == "url" and name == "host":
            port = parts["url"].constant.value if "url" in parts else ""
            parts["url"] = ConstantPart(given.key, Constant(f"{_bracketed(str(value))}{port}", given.constant.span))
        else:
            parts[key.to] = given

    def _wire(self) -> Iterator[tuple[str, ConstantPart]]:
        """The defaults of tremor 0.11 are written out, because connectors here have no default codec."""
        given = self._ramp.settings
        if "codec_map" in given:
            message = "`codec_map` is not supported: a connector has one codec"
            self._report(error(message, given["codec_map"].key, "name it as `codec`"))
        codec = given.get("codec")
        if codec is not None and not isinstance(codec.constant.value, str):
            self._report(error(f"`codec` takes text, not {kind_of(codec.constant.value)}", codec.constant.span))
        elif self._kind.codec is not None:
            yield "codec", codec or self._unsaid(self._kind.codec)
        elif codec is not None and codec.constant.value != "json":  # which is what its events are
            self._report(error(f"{self._what()} takes no `codec`", codec.key, "take it out"))
        for key, known in (("preprocessors", PREPROCESSORS), ("postprocessors", POSTPROCESSORS)):
            chain = list(self._chain(key, known)) if key in given else []
            if self._kind.codec is None and chain:
                self._report(error(f"{self._what()} takes no `{key}`", given[key].key, "take it out"))
            elif self._kind.codec is not None and (chain or key in given or self._lines):
                yield key, self._part(key, chain)

    @property
    def _lines(self) -> bool:
        return self._kind.lines or self._kind.lines_unsaid

    def _part(self, key: str, chain: list[Constant]) -> ConstantPart:
        if self._kind.lines or (self._kind.lines_unsaid and not chain):
            line = derived("separate", self._ramp.id.span)
            chain = [line, *chain] if key == "preprocessors" else [*chain, line]
        given = self._ramp.settings.get(key)
        span = given.constant.span if given else self._ramp.id.span
        parts: dict[str | int, ConstantPart] = {at: ConstantPart(link.span, link) for at, link in enumerate(chain)}
        return ConstantPart(given.key if given else span, Constant([link.value for link in chain], span, parts))

    def _chain(self, key: str, known: Mapping[str, tuple[str, Mapping[str, object]]]) -> Iterator[Constant]:
        constant = self._ramp.settings[key].constant
        if not isinstance(constant.value, list):
            hint = f"write `[{constant.value}]`" if isinstance(constant.value, str) else "as `[lines]`"
            self._report(error(f"`{key}` takes a list, not {kind_of(constant.value)}", constant.span, hint))
            return
        for link in (part.constant for part in constant.parts.values()):
            name = link.value
            if not isinstance(name, str):
                self._report(error(f"a {key[:-1]} is a name, not {kind_of(name)}", link.span))
            elif name not in known:
                there_are = f"there are {one_of(known).replace(' or ', ' and ')}"
                self._report(error(f"unknown {key[:-1]} `{name}`", link.span, did_you_mean(name, known) or there_are))
            else:
                ours, config = known[name]
                yield derived({"name": ours, "config": dict(config)} if config else ours, link.span)

    def _unsaid(self, value: object) -> ConstantPart:
        return ConstantPart(self._ramp.id.span, derived(value, self._ramp.id.span))

    def _flag(self, key: str) -> bool:
        part = self._ramp.settings.get(key)
        if part is None:
            return False
        if not isinstance(part.constant.value, bool):
            message = f"`{key}` takes true or false, not {kind_of(part.constant.value)}"
            self._report(error(message, part.constant.span))
        return part.constant.value is True

    def _warn_of_unused(self) -> None:
        if part := self._ramp.settings.get("metrics_interval_s"):
            hint = "`walflow run` serves all metrics at /metrics"
            self._report(warning(NO_EFFECT, "`metrics_interval_s` has no effect", part.key, hint))


def _bracketed(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
