"""All operators that limit, number, divert and note, in one flow of one daemon: what leaves where."""

import json
import socket
from pathlib import Path
from typing import Any

from tests.flows.builder import ANY_PORT, AT_ONCE, flow_of, lines_in, lines_out, pipeline
from tests.system.daemon import running
from tests.waiting import PATIENCE, wait_until

LIMITS = """
  into out, here
  pipeline
    define script classify
    script
      let $class = event.user;
      let $rate = 2;
      let $time_range = 3_600_000;
      event
    end;
    define operator note from debug::history with op = "limits", name = "way" end;
    define operator limit from grouper::bucket;
    define operator numbers from generic::counter;
    define operator slower from qos::backpressure with timeout = 60_000_000_000 end;
    define operator share from qos::percentile with timeout = 60_000_000_000 end;
    create script classify;
    create operator note;
    create operator limit;
    create operator numbers;
    create operator slower;
    create operator share;

    select event from in into classify;
    select event from classify into note;
    select event from note into limit;
    select {"too_many": event, "way": $way} from limit/overflow into out/here;
    select event from limit into numbers;
    select event from numbers into slower;
    select event from slower into out;
    select event from slower/overflow into share;
    select event from share into out;
    select {"left_out": event, "way": $way} from share/overflow into out/here;
"""


def request(user: str, at: int) -> dict[str, Any]:
    return {"user": user, "at": at}


def test_five_operators_in_one_flow(tmp_path: Path) -> None:
    path = tmp_path / "limits.troy"
    with socket.create_server(("127.0.0.1", 0)) as away:
        away.settimeout(PATIENCE)
        path.write_text(
            flow_of(
                "requests -> limits -> away",
                "limits/here -> here",
                limits=pipeline(LIMITS),
                requests=lines_in("tcp_server", url=ANY_PORT),
                away=lines_out("tcp_client", url=f"127.0.0.1:{away.getsockname()[1]}", reconnect=AT_ONCE),
                here=lines_out("stdio"),
            )
        )
        with running(path, tmp_path) as daemon, socket.create_connection(("127.0.0.1", daemon.port())) as client:
            peer, _ = away.accept()
            with peer, peer.makefile() as lines:
                send(client, [request("ann", 1), request("ann", 2), request("ann", 3), request("bob", 4)])
                arrived = [json.loads(lines.readline()) for _ in range(3)]
            assert arrived == [
                {"count": 1, "event": request("ann", 1)},
                {"count": 2, "event": request("ann", 2)},
                {"count": 3, "event": request("bob", 4)},
            ]
            away.close()
            daemon.wait_for("cannot connect")
            send(client, [request("cid", 5), request("bob", 6), request("bob", 7)])
            wait_until(lambda: len(daemon.stdout) == 4, "both reports of each")
            assert daemon.terminate() == 0
    printed = [json.loads(line) for line in daemon.stdout]
    assert [line["too_many"] for line in printed if "too_many" in line] == [request("ann", 3), request("bob", 7)]
    assert [line["left_out"] for line in printed if "left_out" in line] == [
        {"count": 4, "event": request("cid", 5)},
        {"count": 5, "event": request("bob", 6)},
    ]
    assert {tuple(line["way"]) for line in printed} == {("evt: limits(main::requests:1)",)}


def send(client: socket.socket, events: list[dict[str, Any]]) -> None:
    client.sendall("".join(f"{json.dumps(event)}\n" for event in events).encode())
