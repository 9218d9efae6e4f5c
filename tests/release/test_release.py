"""What a release consists of: the same bytes each time, and nothing in it that does not belong there."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from release import chart, image, sums, tree, wheels
from tests.system.daemon import ROOT

VERSION = "7.8.9"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("first"))


def make(folder: Path) -> Path:
    """All but the packages for Debian: these take minutes."""
    into = folder / "dist"
    into.mkdir()
    of = tree.export(folder / "tree", VERSION)
    wheels.build(of, into)
    chart.build(of, into)
    image.build(of, into)
    sums.write(into)
    return into


@pytest.mark.nightly
def test_the_same_bytes_twice(made: Path, tmp_path: Path) -> None:
    again = make(tmp_path)
    assert (made / "SHA256SUMS").read_text() == (again / "SHA256SUMS").read_text()
    assert len((made / "SHA256SUMS").read_text().splitlines()) == 4


@pytest.mark.nightly
def test_the_wheel_has_no_tests_and_no_pictures(made: Path) -> None:
    (wheel,) = made.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        unpacked = sum(one.file_size for one in packed.infolist())
        assert f"Version: {VERSION}\n" in packed.read(f"walflow-{VERSION}.dist-info/METADATA").decode()
    assert [
        name for name in names if re.search(r"(^|/)tests?/|/test_\w+\.py$|\.(png|svg|gif|jpe?g|ico|webp)$", name)
    ] == [name for name in names if "/cli/new/templates/" in name and "/tests/" in name]
    assert wheel.stat().st_size < 2_000_000
    assert unpacked < 7_000_000


@pytest.mark.nightly
def test_the_changelog_is_cut(made: Path) -> None:
    (sdist,) = made.glob(f"walflow-{VERSION}.tar.gz")
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    assert f"walflow-{VERSION}/walflow_command.py" in names
    changes = (made.parent / "tree" / "CHANGELOG.md").read_text("utf-8")
    assert changes.count(f"\n## {VERSION}, ") == 1
    assert f"\n## {VERSION}, " not in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.nightly
def test_a_signature_is_verified_and_another_file_is_not(made: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    sums.sign(made / "SHA256SUMS", key)
    allowed = f'release namespaces="{sums.NAMESPACE}" {key.with_suffix(".pub").read_text()}'
    (made / "allowed_signers").write_text(allowed)

    def verified() -> bool:
        return subprocess.run(["sh", "-c", sums.VERIFY], cwd=made, capture_output=True, check=False).returncode == 0

    assert verified()
    page = (ROOT / "packaging" / "RELEASING.md").read_text("utf-8")
    assert f"```sh\n{sums.VERIFY}\n```" in page
    (wheel,) = made.glob("*.whl")
    kept = wheel.read_bytes()
    wheel.write_bytes(kept + b" ")
    assert not verified()
    wheel.write_bytes(kept)
    (made / "SHA256SUMS").write_text((made / "SHA256SUMS").read_text() + " ")
    assert not verified()


def test_a_man_page_for_each_command(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "release.manual", str(tmp_path)], cwd=ROOT, check=True, timeout=100)
    listed = re.findall(r"^## (.*)", (ROOT / "docs/reference/commands.md").read_text("utf-8"), re.MULTILINE)
    names = {path.stem for path in tmp_path.iterdir()}
    assert names >= {name.replace(" ", "-") for name in listed}
    text = (tmp_path / "walflow-wal-dump.1").read_text("utf-8")
    assert "\n.TP\n.B \\-\\-raw\n" in text


def test_what_llms_txt_names_is_there() -> None:
    docs = ROOT / "docs"
    named = re.findall(r"\]\(([^)]+)\)", (docs / "llms.txt").read_text("utf-8"))
    assert len(named) > 10
    assert [name for name in named if not (docs / name).exists()] == []
    json.loads((docs / "reference" / "connectors.schema.json").read_text("utf-8"))
