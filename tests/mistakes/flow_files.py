"""Mistakes in a flow file that someone makes who has read the docs: what is written in place of what."""

from collections.abc import Mapping
from typing import Final

RIGHT: Final = """\
define flow main
flow
  use tremor::pipelines;

  define connector incoming from tcp_server
  with
    codec = "json",
    preprocessors = ["separate"],
    config = {"url": "127.0.0.1:4242", "max_connections": 10}
  end;

  define connector log from wal
  with
    config = {"path": "state"}
  end;

  define connector out from file
  with
    codec = "json",
    postprocessors = ["separate"],
    config = {"path": "out.jsonl", "mode": "append"}
  end;

  define pipeline severe
  pipeline
    use std::string;
    define script level
    script
      let event.level = string::uppercase(event.level);
      match event of
        case %{status >= 500} => event
        default => drop
      end
    end;
    create script level;
    select event from in where event.host == "a" into level;
    select event from level into out;
  end;

  create connector incoming;
  create connector log;
  create connector out;
  create pipeline before from pipelines::passthrough;
  create pipeline severe;

  connect /connector/incoming to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/severe;
  connect /pipeline/severe to /connector/out;
end;

deploy flow main;
"""

TCP: Final = '"url": "127.0.0.1:4242", "max_connections": 10'
WHERE: Final = 'where event.host == "a"'
CASE: Final = "case %{status >= 500} => event"
FILE_OUT: Final = """from file
  with
    codec = "json",
    postprocessors = ["separate"],
    config = {"path": "out.jsonl", "mode": "append"}
"""
HTTP: Final = 'from http_client with config = {"url": "http://127.0.0.1:1/"}\n'
ANSWERS: Final = """\
  create pipeline answers from pipelines::passthrough;
  connect /connector/out to /pipeline/answers;
  connect /pipeline/answers to /connector/log;
end;

deploy"""

Change = tuple[str, str]

MISTAKES: Final[Mapping[str, tuple[Change, ...]]] = {
    "a misspelt key": ((TCP, '"urll": "127.0.0.1:4242"'),),
    "a misspelt value": (('"mode": "append"', '"mode": "apend"'),),
    "a misspelt codec": (('codec = "json",\n    pre', 'codec = "jsn",\n    pre'),),
    "a misspelt connector": (("from tcp_server", "from tcp_servr"),),
    "a misspelt function": (("string::uppercase", "string::upercase"),),
    "a misspelt module": (("use std::string", "use std::strng"),),
    "no semicolon": (("create connector log;", "create connector log"),),
    "no end": (('{"path": "state"}\n  end;', '{"path": "state"};'),),
    "no deploy": (("deploy flow main;\n", ""),),
    "no create": (("  create connector out;\n", ""),),
    "no codec": (('codec = "json",\n    pre', "pre"),),
    "one equals sign": ((WHERE, 'where event.host = "a"'),),
    "single quotes": ((WHERE, "where event.host == 'a'"),),
    "ampersands": ((WHERE, f"{WHERE} && event.x == 1"),),
    "if": ((CASE, "if event.status >= 500 { event }"),),
    "a field of jq": ((WHERE, 'where .host == "a"'),),
    "a size with a unit": ((TCP, f'{TCP}, "write_buffer": "16MB"'),),
    "a port that is none": ((TCP, '"url": "127.0.0.1:70000"'),),
    "a text for a number": (('"max_connections": 10', '"max_connections": "ten"'),),
    "a text for an array": (('preprocessors = ["separate"]', 'preprocessors = "separate"'),),
    "a connector linked to a connector": (
        ("connect /connector/incoming to /pipeline/before", "connect /connector/incoming to /connector/log"),
    ),
    "one file for two": (
        ("  define pipeline severe", f"  define connector more {FILE_OUT}  end;\n\n  define pipeline severe"),
        ("create connector out;", "create connector out;\n  create connector more;"),
        ("to /connector/out;", "to /connector/out;\n  connect /pipeline/severe to /connector/more;"),
    ),
    "a name in capitals": (("create connector incoming;", "create connector Incoming;"),),
    "open to everyone": (("127.0.0.1:4242", "0.0.0.0:4242"),),
    "no postprocessors": (('    postprocessors = ["separate"],\n', ""),),
    "no link to a sink": (("  connect /pipeline/severe to /connector/out;\n", ""),),
    "a link in the wrong direction": (
        ("connect /pipeline/before to /connector/log", "connect /connector/log to /pipeline/before"),
    ),
    "a value of Python": (('"max_connections": 10', '"nodelay": True'),),
    "an unknown option of Kafka": (
        (
            FILE_OUT,
            (
                'from kafka_producer with codec = "json", config = {"brokers": ["127.0.0.1:9092"], "topic": "t", '
                '"rdkafka_options": {"lingr.ms": 5}}\n'
            ),
        ),
    ),
    "no preprocessors": (('    preprocessors = ["separate"],\n', ""),),
    # seen beside the thirty
    "a name for what is matched": ((CASE, "case s when s.status >= 500 => event"),),
    "lines of a file joined by a codec's frame": (
        (
            (
                'from tcp_server\n  with\n    codec = "json",\n    preprocessors = ["separate"],\n'
                f"    config = {{{TCP}}}"
            ),
            (
                'from file\n  with\n    codec = "string",\n    preprocessors = ["separate", "base64"],\n'
                '    config = {"path": "app.log", "mode": "read", "follow": true}'
            ),
        ),
    ),
    "the answers of an http_client without responses": ((FILE_OUT, HTTP), ("end;\n\ndeploy", ANSWERS)),
    "what a file writes as a source": (("end;\n\ndeploy", ANSWERS),),
}
