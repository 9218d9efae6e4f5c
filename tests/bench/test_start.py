"""What `python -m bench.start` starts is what it says."""

from pathlib import Path

from bench.start import MANY, flow
from walflow.plan import load


def test_the_flow_has_as_many_pipelines_and_all_are_compiled(tmp_path: Path) -> None:
    file = tmp_path / "main.troy"
    file.write_text(flow(MANY), "utf-8")
    assembly, said = load([file])
    assert assembly is not None, said
    assert len([region for plan in assembly.pipelines for region in plan.regions]) == MANY
