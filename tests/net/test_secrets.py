from pathlib import Path

import pytest
from pydantic import ValidationError

from walflow.net import NoSecret, Secret

CANARY = "canary-7f3a"


def secret(**given: object) -> Secret:
    return Secret.model_validate(given)


@pytest.mark.parametrize("text", [CANARY, CANARY + "\n", CANARY + "\r\n"])
def test_from_a_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "password").write_bytes(text.encode())
    assert secret(file=str(tmp_path / "password")).read().get_secret_value() == CANARY


def test_from_the_environment_and_from_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", CANARY)
    assert secret(env="A_PASSWORD").read().get_secret_value() == CANARY
    with pytest.raises(NoSecret, match="CREDENTIALS_DIRECTORY is not set"):
        secret(credential="password").read()
    (tmp_path / "password").write_text(CANARY)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert secret(credential="password").read().get_secret_value() == CANARY


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSecret, match="NO_SUCH_VARIABLE is not set"):
        secret(env="NO_SUCH_VARIABLE").read()
    with pytest.raises(NoSecret, match="nothing: No such file"):
        secret(file=str(tmp_path / "nothing")).read()
    (tmp_path / "noise").write_bytes(b"\xff\xfe")
    with pytest.raises(NoSecret, match="holds no text"):
        secret(file=str(tmp_path / "noise")).read()


@pytest.mark.parametrize(
    "given", [{}, {"file": "a", "env": "B"}, {"credential": "../a"}, {"credential": ""}, {"plain": "a"}]
)
def test_what_is_no_place(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Secret.model_validate(given)


def test_no_text_of_it_shows() -> None:
    inline = Secret.model_validate(CANARY)
    assert inline.read().get_secret_value() == CANARY
    for shown in (repr(inline), str(inline), inline.model_dump_json(), repr(inline.read())):
        assert CANARY not in shown
    with pytest.raises(ValidationError) as refused:
        Secret.model_validate({"file": CANARY, "env": CANARY})
    assert CANARY not in str(refused.value)
