"""SHA256SUMS over all files of a release, and its signature by OpenSSH, which every system has: no service is asked,
and `packaging/allowed_signers` in the repository names whose keys count."""

import hashlib
import subprocess
from pathlib import Path
from typing import Final

NAMESPACE: Final = "walflow-release"
VERIFY: Final = (
    f"ssh-keygen -Y verify -f allowed_signers -I release -n {NAMESPACE} -s SHA256SUMS.sig < SHA256SUMS && "
    "sha256sum -c SHA256SUMS"
)


def write(folder: Path) -> Path:
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("SHA256SUMS"))
    sums = folder / "SHA256SUMS"
    sums.write_text(
        "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files), "utf-8"
    )
    return sums


def sign(sums: Path, key: Path) -> Path:
    """`key`: a private key of OpenSSH, or the public one of a key that an agent has."""
    signature = sums.with_name(f"{sums.name}.sig")
    signature.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE, str(sums)], check=True)
    return signature
