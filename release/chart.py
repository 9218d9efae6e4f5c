"""The Helm chart, packed as `helm package` does, but with the commit's time on each file."""

import re
from pathlib import Path

from release.packed import pack
from release.tree import Tree


def build(tree: Tree, into: Path) -> Path:
    source = tree.path / "packaging" / "helm" / "walflow"
    about = re.sub(
        r"(?m)^(version|appVersion): .*", rf"\1: {tree.version}", (source / "Chart.yaml").read_text("utf-8")
    )
    (source / "Chart.yaml").write_text(about, "utf-8")
    files = {f"walflow/{path.relative_to(source)}": path for path in source.rglob("*") if path.is_file()}
    return pack(files, tree.epoch, into / f"walflow-chart-{tree.version}.tgz")
