"""What YAML files of tremor 0.11 declare: onramps, offramps, bindings, mappings. Names are not looked up."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from walflow.compile.constant import Constant, ConstantPart
from walflow.compile.nodes import Name
from walflow.diagnostics import Report, Span, did_you_mean, error, one_of
from walflow_kernel.values import kind_of

RampKind = Literal["onramp", "offramp"]

SECTIONS: Final = ("onramp", "offramp", "binding", "mapping")
RAMP_KEYS: Final = (
    *("id", "type", "description", "codec", "codec_map", "preprocessors", "postprocessors"),
    *("linked", "err_required", "metrics_interval_s", "config"),
)
BINDING_KEYS: Final = ("id", "description", "links")


class Ramp(NamedTuple):
    kind: RampKind
    id: Name
    type: Name
    settings: Mapping[str | int, ConstantPart]


class Template(NamedTuple):
    """A link with placeholders: `/pipeline/main/{instance}/in`."""

    source: Name
    target: Name


class Binding(NamedTuple):
    id: Name
    links: tuple[Template, ...]


class Instance(NamedTuple):
    """`/binding/default/01: {instance: "01"}`"""

    url: Name
    given: Mapping[str, Name]


@dataclass
class Artefacts:
    """Of all files together. `whole`: no part was lost to an error that was reported."""

    ramps: dict[tuple[RampKind, str], Ramp] = field(default_factory=dict[tuple[RampKind, str], Ramp])
    bindings: dict[str, Binding] = field(default_factory=dict[str, Binding])
    instances: dict[str, Instance] = field(default_factory=dict[str, Instance])
    whole: bool = True


class ArtefactReader:
    def __init__(self, artefacts: Artefacts, report: Report) -> None:
        self._into = artefacts
        self._report = report

    def read(self, document: Constant) -> None:
        if not document.is_record:
            hint = f"it begins with {one_of(f'{section}:' for section in SECTIONS)}"
            self._error(f"a configuration is a record, not {kind_of(document.value)}", document.span, hint)
            return
        for section, part in document.parts.items():
            match section:
                case "onramp" | "offramp":
                    self._ramps(section, part.constant)
                case "binding":
                    self._bindings(part.constant)
                case "mapping":
                    self._mappings(part.constant)
                case _:
                    self._unknown_section(str(section), part.key)

    def _error(self, message: str, span: Span, hint: str | None = None) -> None:
        self._into.whole = False
        self._report(error(message, span, hint))

    def _unknown_section(self, section: str, key: Span) -> None:
        if section in {*RAMP_KEYS, *BINDING_KEYS}:
            message, hint = f"`{section}` belongs to an item of a list", "indent it as the `id` of its item"
            self._error(message, key, hint)
        else:
            known = one_of(SECTIONS).replace(" or ", " and ")
            self._error(f"unknown section `{section}`", key, did_you_mean(section, SECTIONS) or f"there are {known}")

    def _ramps(self, kind: RampKind, section: Constant) -> None:
        for item in self._items(kind, section, RAMP_KEYS, ("id", "type")):
            id_, type_ = self._text(item, "id"), self._text(item, "type")
            if id_ is None or type_ is None or not self._is_id(id_):
                continue
            if first := self._into.ramps.get((kind, id_.text)):
                self._error(f"{kind} `{id_.text}` is defined twice", id_.span, f"first at {first.id.span}")
            else:
                self._into.ramps[kind, id_.text] = Ramp(kind, id_, type_, item.parts)

    def _bindings(self, section: Constant) -> None:
        for item in self._items("binding", section, BINDING_KEYS, ("id", "links")):
            id_ = self._text(item, "id")
            if id_ is None or not self._is_id(id_):
                continue
            if first := self._into.bindings.get(id_.text):
                self._error(f"binding `{id_.text}` is defined twice", id_.span, f"first at {first.id.span}")
            else:
                links = tuple(self._links(item.parts["links"].constant)) if "links" in item.parts else ()
                self._into.bindings[id_.text] = Binding(id_, links)

    def _links(self, links: Constant) -> Iterator[Template]:
        example = '`"/onramp/a/{instance}/out": ["/pipeline/b/{instance}/in"]`'
        if not links.is_record:
            self._error(f"`links` takes a record, not {kind_of(links.value)}", links.span, f"as {example}")
            return
        for source, part in links.parts.items():
            targets = part.constant
            if not isinstance(targets.value, list):
                hint = f'write `["{targets.value}"]`' if isinstance(targets.value, str) else f"as {example}"
                self._error(f"a link leads to a list, not {kind_of(targets.value)}", targets.span, hint)
                continue
            for target in targets.parts.values():
                if isinstance(target.constant.value, str):
                    yield Template(Name(str(source), part.key), Name(target.constant.value, target.constant.span))
                else:
                    message = f"the end of a link is text, not {kind_of(target.constant.value)}"
                    self._error(message, target.constant.span)

    def _mappings(self, section: Constant) -> None:
        if not section.is_record:
            hint = 'as `/binding/default/01: {instance: "01"}`'
            self._error(f"`mapping` takes a record, not {kind_of(section.value)}", section.span, hint)
            return
        for url, part in section.parts.items():
            name = Name(str(url), part.key)
            if first := self._into.instances.get(name.text):
                self._error(f"`{url}` is mapped twice", name.span, f"first at {first.url.span}")
            else:
                self._into.instances[name.text] = Instance(name, dict(self._given(part.constant, name)))

    def _given(self, given: Constant, url: Name) -> Iterator[tuple[str, Name]]:
        if given.value is None:
            return
        if not given.is_record:
            hint = 'as `{instance: "01"}`'
            self._error(f"`{url.text}` takes a record, not {kind_of(given.value)}", given.span, hint)
            return
        for key, part in given.parts.items():
            value = part.constant
            if isinstance(value.value, str):
                yield str(key), Name(value.value, part.key)
            else:
                yield str(key), Name(value.span.text, part.key)  # otherwise it would be reported as missing, too
                hint = f'write `{key}: "{"01" if value.value is None else value.span.text}"`'
                self._error(f"`{key}` takes text, not {kind_of(value.value)}", value.span, hint)

    def _items(self, kind: str, section: Constant, known: Sequence[str], needed: Sequence[str]) -> Iterator[Constant]:
        """The items that are records, also if keys are missing in them."""
        if not isinstance(section.value, list):
            hint = f"each item begins with a dash: `- id: …` below `{kind}:`"
            self._error(f"`{kind}` takes a list, not {kind_of(section.value)}", section.span, hint)
            return
        for item in (part.constant for part in section.parts.values()):
            if not item.is_record:
                self._error(f"an item of `{kind}` is a record, not {kind_of(item.value)}", item.span)
                continue
            for key, part in item.parts.items():
                if key not in known:
                    takes = f"it takes {one_of(known).replace(' or ', ' and ')}"
                    hint = did_you_mean(str(key), known) or takes
                    self._error(f"unknown key `{key}` of an item of `{kind}`", part.key, hint)
            for key in needed:
                if key not in item.parts:
                    self._error(f"an item of `{kind}` needs the key `{key}`", self._begin(item))
            yield item

    def _begin(self, item: Constant) -> Span:
        """The place of its first key. The whole item has many lines."""
        return next((part.key for part in item.parts.values()), item.span)

    def _text(self, item: Constant, key: str) -> Name | None:
        if key not in item.parts:
            return None
        value = item.parts[key].constant
        if isinstance(value.value, str):
            return Name(value.value, value.span)
        hint = f'quote it: `"{value.span.text}"`' if value.value is not None and not value.parts else None
        self._error(f"`{key}` takes text, not {kind_of(value.value)}", value.span, hint)
        return None

    def _is_id(self, id_: Name) -> bool:
        wrong = next((char for char in id_.text if char in "/{}" or char.isspace()), None)
        if wrong is None and id_.text:
            return True
        message = f"an id has no `{wrong}`" if wrong else "an id is not empty"
        self._error(message, id_.span)
        return False
