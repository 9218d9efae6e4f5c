"""Artefacts and queries -> Flow. Each mapping fills the placeholders of a binding, and the artefacts that it links
are created. The URL identifies an instance: two mappings that name `/pipeline/main/01` mean the same pipeline, so
they become one flow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from walflow.compile.nodes import Name
from walflow.diagnostics import Diagnostic, Report, Span, did_you_mean, error, one_of
from walflow.lang.config import ConnectorConfig, Flow, LinkConfig, LinkEnd, NodeId, PipelineConfig, SelectConfig
from walflow.lang.legacy.artefacts import Artefacts, Instance, Ramp, RampKind, Template
from walflow.lang.legacy.kinds import PASSTHROUGH, SYSTEM
from walflow.lang.legacy.queries import Queries
from walflow.lang.legacy.ramps import Converted, convert
from walflow.lang.legacy.url import Artefact, Kind, Url, filled, parsed, placeholders
from walflow.warnings import warning
from walflow.warnings.no_effect import NO_EFFECT
from walflow.warnings.unused import UNUSED
from walflow.warnings.written_otherwise import WRITTEN_OTHERWISE


class _Link(NamedTuple):
    source: Url
    target: Url


@dataclass
class _Group:
    """Mappings that share an instance. `lost`: some of their links had errors."""

    alias: Name
    links: list[_Link]
    lost: bool

    def artefacts(self) -> dict[Artefact, Name]:
        """Each with the first place that names it."""
        named: dict[Artefact, Name] = {}
        for link in self.links:
            for url in link:
                named.setdefault(url.artefact, url.written)
        return named


def flows(artefacts: Artefacts, queries: Queries, report: Report) -> list[Flow]:
    return _Deployment(artefacts, queries, report).flows()


class _Deployment:
    def __init__(self, artefacts: Artefacts, queries: Queries, report: Report) -> None:
        self._artefacts = artefacts
        self._queries = queries
        self._report = report
        self._ramps: dict[tuple[RampKind, str], Converted | None] = {}

    def flows(self) -> list[Flow]:
        for key, ramp in self._artefacts.ramps.items():
            self._ramps[key] = convert(ramp, self._report)
        mapped = [group for one in self._artefacts.instances.values() if (group := self._mapped(one))]
        groups = _joined(mapped)
        made = [self._flow(group) for group in groups]
        if self._artefacts.whole:
            self._warn_of_unused(groups)
        return made

    # ---- links

    def _mapped(self, instance: Instance) -> _Group | None:
        url = instance.url
        parts = url.text.split("/")
        if len(parts) != 4 or parts[0] or not all(parts[1:]):
            self._report(
                error(f"`{url.text}` is no instance of a binding", url.span, "write `/binding/id/instance:`")
            )
            return None
        if parts[1] != "binding":
            hint = "its instances are made by the binding that links it"
            message = f"what is mapped is a binding, not `{parts[1]}`"
            self._report(error(message, url.span, hint if parts[1] in ("onramp", "offramp", "pipeline") else None))
            return None
        binding = self._artefacts.bindings.get(parts[2])
        if binding is None:
            known = self._artefacts.bindings
            listed = f"there is {one_of(known)}" if known else "there is none"
            hint = did_you_mean(parts[2], known) or listed
            self._report(error(f"unknown binding `{parts[2]}`", url.span, hint))
            return None
        self._check_placeholders(instance, binding.links)
        found = [self._link(template, instance.given) for template in binding.links]
        links = [link for link in found if link]
        return _Group(Name(f"{parts[2]}/{parts[3]}", url.span), links, len(links) < len(found))

    def _check_placeholders(self, instance: Instance, links: Sequence[Template]) -> None:
        wanted = sorted({name for link in links for end in link for name in placeholders(end.text)})
        for name in wanted:
            if name not in instance.given:
                near = did_you_mean(name, [given for given in instance.given if given not in wanted])
                hint = f'add `{name}: "01"`, say' if near is None else f"{near} Its placeholder is `{{{name}}}`"
                self._report(error(f"`{{{name}}}` of the binding is not filled", instance.url.span, hint))
        for name, value in instance.given.items():
            if name not in wanted and set(wanted) <= set(instance.given):
                self._report(
                    warning(
                        NO_EFFECT,
                        f"the binding has no placeholder `{{{name}}}`",
                        value.span,
                        "it has no effect",
                    )
                )

    def _link(self, template: Template, given: Mapping[str, Name]) -> _Link | None:
        if any(placeholders(end.text) - given.keys() for end in template):
            return None  # said already
        ends = [self._end(end, given) for end in template]
        source, target = ends
        if source is None or target is None:
            return None
        if source.artefact.kind != "pipeline" != target.artefact.kind:
            hint = f"link both to `/pipeline/{PASSTHROUGH}/{source.artefact.instance}`"
            self._report(error("onramps and offramps are linked by pipelines", template.target.span, hint))
            return None
        directed = [self._check_direction(source, "out"), self._check_direction(target, "in")]
        return _Link(source, target) if all(directed) else None

    def _end(self, written: Name, given: Mapping[str, Name]) -> Url | None:
        url = parsed(filled(written.text, given), written)
        if isinstance(url, Diagnostic):
            self._report(url)
            return None
        kind, name, _ = url.artefact
        if kind == "pipeline":
            return self._pipeline_end(url)
        if (kind, name) in self._artefacts.ramps or (kind, name) in SYSTEM:
            return url
        if name == "system::metrics":
            hint = "`walflow run` serves them at /metrics"
            self._report(error("metrics as events are not supported yet", written.span, hint))
        elif self._artefacts.whole:
            others = [id_ for of, id_ in [*self._artefacts.ramps, *SYSTEM] if of == kind]
            listed = f"there are {one_of(others).replace(' or ', ' and ')}" if others else "there is none"
            self._report(error(f"unknown {kind} `{name}`", written.span, did_you_mean(name, others) or listed))
        return None

    def _pipeline_end(self, url: Url) -> Url | None:
        name, known = url.artefact.id, self._queries.names
        if name in self._queries or name == PASSTHROUGH:
            return url
        if name == "main" and len(known) == 1:
            message = (
                f"there is no main.trickle: `/pipeline/main` is taken for the one pipeline there is, `{known[0]}`"
            )
            hint = f"write `{url.written.text.replace('/pipeline/main', f'/pipeline/{known[0]}', 1)}`"
            self._report(warning(WRITTEN_OTHERWISE, message, url.written.span, hint))
            return url._replace(artefact=url.artefact._replace(id=known[0]))
        near = did_you_mean(name, known)
        hint = near or f"a pipeline is called as its file: give {name}.trickle to run too"
        self._report(error(f"unknown pipeline `{name}`", url.written.span, hint))
        return None

    def _check_direction(self, url: Url, end: Literal["out", "in"]) -> bool:
        """An onramp is a source and an offramp a sink, unless it is `linked`."""
        kind, name, _ = url.artefact
        gives = kind == "onramp"
        if kind == "pipeline" or gives == (end == "out"):
            return True
        ramp = self._ramps.get((kind, name))
        if ramp is not None and ramp.linked:
            return True
        if ramp is not None or (kind, name) in SYSTEM:
            verb = "to" if end == "in" else "from"
            hint = None if (kind, name) in SYSTEM else f"add `linked: true` to {kind} `{name}`, if both are meant"
            self._report(error(f"nothing can be linked {verb} an {kind}", url.written.span, hint))
        return False

    # ---- nodes

    def _flow(self, group: _Group) -> Flow:
        named = group.artefacts()
        names = _names(named)
        connectors: list[ConnectorConfig] = []
        pipelines: list[PipelineConfig] = []
        for artefact, written in named.items():
            node = names[artefact]
            if artefact.kind == "pipeline":
                pipelines.append(self._pipeline(artefact, node, group.alias, written))
            elif connector := self._connector(artefact, artefact.kind, node, group.alias, written):
                connectors.append(connector)
        self._check_err(group)
        links = tuple(_config(link, group.alias, names) for link in group.links)
        whole = self._artefacts.whole and not group.lost and len(connectors) + len(pipelines) == len(named)
        return Flow(group.alias.text, tuple(connectors), tuple(pipelines), links, whole, group.alias.span)

    def _connector(
        self, artefact: Artefact, kind: RampKind, node: str, alias: Name, written: Name
    ) -> ConnectorConfig | None:
        if (kind, artefact.id) in self._artefacts.ramps:
            ramp = self._artefacts.ramps[kind, artefact.id]
            converted = self._ramps[kind, artefact.id]
        else:
            here = Name(SYSTEM[kind, artefact.id], written.span)
            ramp = Ramp(kind, Name(artefact.id, written.span), here, {})
            converted = convert(ramp, self._report)
        if converted is None:
            return None
        id_ = NodeId(alias.text, "connector", node)
        return ConnectorConfig(id_, converted.type, converted.settings, True, ramp.id.span, ramp.id.span)

    def _pipeline(self, artefact: Artefact, node: str, alias: Name, written: Name) -> PipelineConfig:
        if artefact.id in self._queries:
            return self._queries.config(artefact.id, alias, node)
        at = written.span
        select = SelectConfig(Name("in", at), Name("out", at))
        return PipelineConfig(NodeId(alias.text, "pipeline", node), None, None, (), (select,), True, at, at)

    def _check_err(self, group: _Group) -> None:
        linked = {link.source.artefact for link in group.links if link.source.port == "err"}
        for artefact in group.artefacts():
            if artefact.kind == "pipeline" or artefact in linked:
                continue
            ramp = self._ramps.get((artefact.kind, artefact.id))
            if ramp is not None and ramp.err_required is not None:
                hint = f'link `"/{artefact.kind}/{artefact.id}/{{instance}}/err"` to a pipeline'
                self._report(
                    error(f"nothing is linked to `err` of {artefact.kind} `{artefact.id}`", ramp.err_required, hint)
                )

    def _warn_of_unused(self, groups: Sequence[_Group]) -> None:
        mapped = {one.url.text.split("/")[2] for one in self._artefacts.instances.values() if "/" in one.url.text[1:]}
        for name, binding in self._artefacts.bindings.items():
            if name not in mapped:
                hint = f'add to `mapping`: `/binding/{name}/01: {{instance: "01"}}`'
                message = f"binding `{name}` is never mapped: it links nothing"
                self._report(warning(UNUSED, message, binding.id.span, hint))
        if not groups or any(group.lost for group in groups) or mapped != set(self._artefacts.bindings):
            return  # an unlinked node may be due to an error
        used = {(artefact.kind, artefact.id) for group in groups for artefact in group.artefacts()}
        for kind, name, span in self._defined():
            if (kind, name) not in used:
                self._report(warning(UNUSED, f"{kind} `{name}` is defined, never linked", span, "it does nothing"))

    def _defined(self) -> Iterator[tuple[Kind, str, Span]]:
        for (kind, name), ramp in self._artefacts.ramps.items():
            yield kind, name, ramp.id.span
        for name in self._queries.names:
            yield "pipeline", name, self._queries.definition(name).name.span


def _joined(mapped: Sequence[_Group]) -> list[_Group]:
    groups: list[_Group] = []
    for one in mapped:
        mine = one.artefacts().keys()
        shared = [group for group in groups if group.artefacts().keys() & mine]
        groups = [group for group in groups if group not in shared]
        together = [*shared, one]
        links = [link for group in together for link in group.links]
        groups.append(_Group(together[0].alias, links, any(group.lost for group in together)))
    return groups


def _names(artefacts: Mapping[Artefact, Name]) -> dict[Artefact, str]:
    """The shortest unique names: `ws`, otherwise with its kind, its instance, or both."""
    return {artefact: "/".join(_told(artefact, artefacts)) for artefact in artefacts}


def _told(artefact: Artefact, all_: Mapping[Artefact, Name]) -> Iterator[str]:
    kinds = {other.kind for other in all_ if other.id == artefact.id and other.kind != "pipeline"}
    if artefact.kind != "pipeline" and len(kinds) > 1:
        yield artefact.kind
    yield artefact.id
    if sum(other[:2] == artefact[:2] for other in all_) > 1:
        yield artefact.instance


def _config(link: _Link, alias: Name, names: Mapping[Artefact, str]) -> LinkConfig:
    source, target = (_endpoint(url, alias, names) for url in link)
    return LinkConfig(source, target, link.target.written.span)


def _endpoint(url: Url, alias: Name, names: Mapping[Artefact, str]) -> LinkEnd:
    kind: Literal["connector", "pipeline"] = "pipeline" if url.artefact.kind == "pipeline" else "connector"
    span: Span = url.written.span
    port = Name(url.port, span) if url.port else None
    return LinkEnd(NodeId(alias.text, kind, names[url.artefact]), port, span)
