"""schemathesis over OpenAI's public API description (tests/golden/openai_openapi.json), for the operations we have.

Two runs against a real server. In the first, bodies are valid and broken in every way that schemathesis knows: no
reply is a 5xx, every reply is what the description says, or for an error its ErrorResponse. In the second, bodies are
valid and use only what Incipit implements: all get a 200, streams with frames that the description allows.

    tests/long/schema_test.py [--examples N] [--seed N]
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from urllib.parse import urlsplit

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import _harness  # noqa: E402
from _harness import Server, test  # noqa: E402

DESCRIPTION = ROOT / "tests" / "golden" / "openai_openapi.json"
HOOKS = ROOT / "tests" / "long" / "_schema_hooks.py"
CHECKS = ("not_a_server_error,response_schema_conformance,content_type_conformance,response_headers_conformance,"
          "status_code_conformance,allow_header_conformance,reply_form")
RUN_S = 3000
STREAM_EVENTS_MAX = 100000  # more than the context; by default schemathesis reads a few and closes
ERROR = {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorResponse"}}}}
arguments = None


def with_nulls(node):
    """`nullable` is a word of OpenAPI 3.0, which the public description, a 3.1, still uses."""
    if isinstance(node, list):
        return [with_nulls(item) for item in node]
    if not isinstance(node, dict):
        return node
    nullable = node.get("nullable") is True
    node = {key: with_nulls(value) for key, value in node.items() if not (nullable and key == "nullable")}
    return {"anyOf": [node, {"type": "null"}]} if nullable else node


def write_description(to):
    """The public one says nothing of errors but 429, nor of a completion's stream. Frames are checked by the hooks:
    schemathesis would take the schema for that of an event with its `data` still a string."""
    description = with_nulls(json.loads(DESCRIPTION.read_text(encoding="utf-8")))
    for operation in [o for methods in description["paths"].values() for o in methods.values()]:
        operation["responses"]["default"] = ERROR
    for path in ("/chat/completions", "/completions"):
        description["paths"][path]["post"]["responses"]["200"]["content"]["text/event-stream"] = {}
    to.write_text(json.dumps(description))


def run_schemathesis(server, folder, *options, fit=False):
    """The statuses of all replies by operation: a Counter of (method, path, status)."""
    description, replies = folder / "description.json", folder / "replies.har"
    write_description(description)
    (folder / "schemathesis.toml").write_text(f"max-stream-events = {STREAM_EVENTS_MAX}\n")
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": str(HOOKS), "SCHEMA_FILE": str(description), "NO_COLOR": "1",
                   "PYTHONIOENCODING": "utf-8", "SCHEMA_FIT": "yes" if fit else ""}
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(description), "--url", f"{server.url}/v1",
               "--checks", CHECKS, "--suppress-health-check", "all", "--request-timeout", "120", "--no-shrink",
               "--max-examples", str(arguments.examples), "--report", "har", "--report-har-path", str(replies),
               "--output-sanitize", "false", "--warnings", "off", "--seed", str(arguments.seed), *options]
    done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=RUN_S, check=False)
    output = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        print(output[-12000:])
    assert done.returncode == 0, f"schemathesis ended with {done.returncode}"
    return count_statuses(replies)


def count_statuses(replies):
    counts = collections.Counter()
    for entry in json.loads(replies.read_text(encoding="utf-8"))["log"]["entries"]:
        path = urlsplit(entry["request"]["url"]).path.removeprefix("/v1")
        path = "/models/ID" if path.startswith("/models/") else path
        counts[entry["request"]["method"], path, entry["response"]["status"]] += 1
    for (method, path, status), count in sorted(counts.items()):
        print(f"  {count:6d}  {status}  {method} {path}")
    return counts


@test
def whatever_is_sent_is_answered_as_described(server, folder):
    counts = run_schemathesis(server, folder, "--phases", "examples,coverage,fuzzing,stateful")
    assert sum(counts.values()) >= 4 * arguments.examples, counts
    for path in ("/chat/completions", "/completions"):
        assert counts["POST", path, 400] > 0, "nothing broken was sent"
    assert all(server.health()[key] == 0 for key in ("running", "waiting"))


@test
def what_is_implemented_is_answered_with_200(server, folder):
    counts = run_schemathesis(server, folder, "--phases", "coverage,fuzzing", "--mode", "positive", fit=True)
    for operation in (("POST", "/chat/completions"), ("POST", "/completions"), ("GET", "/models")):
        assert counts[(*operation, 200)] > 0, (operation, counts)


def main():
    global arguments
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true", help="more examples")
    parser.add_argument("--examples", type=int)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.examples = arguments.examples or (300 if arguments.long else 100)
    print(f"seed {arguments.seed}, {arguments.examples} examples an operation")
    with Server("--context", "256", "--kv-memory", "64MiB", "--max-sequences", "4") as server:
        with tempfile.TemporaryDirectory() as folder:
            return _harness.run(server, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main())
