"""flows/doors/http.troy behind nginx, as most of its users have a proxy in front."""

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.daemon import Daemon, free_port, running
from tests.system.test_http import curl, door, ids_in
from tests.waiting import PATIENCE, wait_until

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
CONFIG = """
daemon off;
worker_processes 1;
{user}
pid {directory}/nginx.pid;
error_log {directory}/nginx-error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {directory}/nginx-body;
  proxy_temp_path {directory}/nginx-proxy;
  fastcgi_temp_path {directory}/nginx-fastcgi;
  uwsgi_temp_path {directory}/nginx-uwsgi;
  scgi_temp_path {directory}/nginx-scgi;
  client_max_body_size 64m;
  upstream walflow {{
    server 127.0.0.1:{door};
    keepalive 8;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://walflow;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_request_buffering {buffering};
    }}
  }}
}}
"""

pytestmark = pytest.mark.skipif(not os.path.exists(NGINX), reason="nginx is missing (apt install nginx)")


@contextmanager
def proxied(directory: Path, buffering: str) -> Iterator[tuple[Daemon, str]]:
    """A door, and the URL of nginx in front of it."""
    port = free_port()
    with running(door(directory, max_body_bytes=1 << 20), directory) as daemon:
        config = directory / "nginx.conf"
        user = "user root;" if os.getuid() == 0 else ""  # the directory of a test is for its owner alone
        text = CONFIG.format(user=user, directory=directory, door=daemon.port(), port=port, buffering=buffering)
        config.write_text(text)
        daemon.wait_for("ready")
        with subprocess.Popen([NGINX, "-p", directory, "-c", config], stderr=subprocess.DEVNULL) as nginx:
            try:
                url = f"http://127.0.0.1:{port}/"
                wait_until(lambda: curl(url)[0] == 405, "nginx does not answer")
                yield daemon, url
            finally:
                nginx.terminate()
                nginx.wait(PATIENCE)


@pytest.mark.parametrize("buffering", ["on", "off"])
def test_what_nginx_passes_on_is_answered_as_without_it(tmp_path: Path, buffering: str) -> None:
    """With buffering off nginx sends a body on as it comes: chunked, if it came so."""
    lines = tmp_path / "events.ndjson"
    lines.write_text("".join(f'{{"id":"{n}"}}\n' for n in range(20_000)))
    ndjson = ["-H", "Content-Type: application/x-ndjson"]
    with proxied(tmp_path, buffering) as (daemon, url):
        assert curl("-d", '{"id":"one"}', url) == (200, '{"events":1}\n')
        assert curl("-T", str(lines), "-X", "POST", "-H", "Transfer-Encoding: chunked", *ndjson, url)[0] == 200
        packed = gzip.compress(b'{"id":"packed"}\n')
        assert curl("--data-binary", "@-", *ndjson, "-H", "Content-Encoding: gzip", url, stdin=packed)[0] == 200
        status, body = curl("--data-binary", "@-", *ndjson, url, stdin=b'{"id":"x"}\n{\n')
        assert (status, json.loads(body)["refused"][0]["line"]) == (400, 2)
        assert curl("--data-binary", "@-", url, stdin=b"1" * (2 << 20))[0] == 413
        key = ["-H", "Idempotency-Key: k", "-d", '{"id":"key"}', url]
        assert [curl(*key)[0], curl(*key)[0]] == [200, 200]
        many = [part for n in range(300) for part in ("-d", f'{{"id":"m{n}"}}', url, "--next", "-s")]
        subprocess.run(["curl", "-s", *many[:-2]], capture_output=True, check=True, timeout=PATIENCE)
        wanted = {"one", "packed", "key", "m299"} | {str(n) for n in range(20_000)}
        wait_until(lambda: wanted <= ids_in(tmp_path / "out.jsonl"), "events are missing")
        said = (tmp_path / "out.jsonl").read_text()
        assert said.count('"key"') == 1
        assert daemon.terminate() == 0, daemon.raw
        assert curl("-d", "1", url)[0] == 502
