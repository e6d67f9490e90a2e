"""The commands as a shell sees them: what they refuse, in which words, and with which exit status."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import _harness
from _harness import Server, binary, model, test

KV = ("--kv-memory", "256MiB")


def call(*arguments, text="", **environment):
    return subprocess.run(
        [binary(), *arguments], input=text, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


def refused(*arguments, status=1, **environment):
    """The one sentence of a command that must fail."""
    done = call(*arguments, **environment)
    assert done.returncode == status and done.stdout == "", (done.returncode, done.stdout, done.stderr)
    assert done.stderr.startswith("incipit: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@test
def serve_says_who_has_the_port_and_what_to_do():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        sentence = refused("serve", "--model", model(), "--port", port, *KV)
    assert port in sentence and "choose another with --port" in sentence, sentence


@test
def serve_refuses_a_host_that_is_not_here():
    assert "no such address" in refused("serve", "--model", model(), "--port", "0", "--host", "192.0.2.1", *KV)
    assert "0.0.0.0" in refused("serve", "--model", model(), "--port", "0", "--host", "300.1.1.1", *KV)


@test
def cors_origin_is_told_to_its_page_only():
    with Server("--cors-origin", "https://page", *KV) as server:
        for origin, allowed in (("https://page", "https://page"), ("https://other", None)):
            reply = server.get("/v1/models", headers={"Origin": origin})
            assert reply.headers.get("access-control-allow-origin") == allowed, (origin, reply.headers)


@test
def a_missing_model_says_how_to_get_one():
    with tempfile.TemporaryDirectory() as empty:
        sentence = refused("serve", "--model", "smollm2", "--model-dir", empty)
        assert "scripts/fetch_model.sh smollm2" in sentence and empty in sentence, sentence
        missing = str(pathlib.Path(empty, "x.gguf"))
        for command in ("serve", "chat", "tokenize", "render", "bench", "inspect"):
            sentence = refused(command, "--model", missing)
            assert missing in sentence and "--model takes" in sentence, sentence


@test
def a_folder_of_the_same_name_does_not_hide_a_model():
    folder = pathlib.Path(model()).parent
    with tempfile.TemporaryDirectory() as here:
        pathlib.Path(here, folder.name).mkdir()
        arguments = [binary(), "tokenize", "--model", folder.name, "--model-dir", str(folder.parent), "--json", "hi"]
        done = subprocess.run(arguments, cwd=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and json.loads(done.stdout)["count"] > 0, done.stderr


@test
def a_file_name_that_is_not_text_still_gives_the_model_a_name():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(os.fsencode(folder), b"m\xe9.gguf")
        os.symlink(os.path.abspath(model()), path)
        with Server("--model", os.fsdecode(path), *KV) as server:
            assert server.get("/v1/models").json()["data"][0]["id"] == "m\ufffd"


@test
def a_pool_that_does_not_fit_says_what_to_lower():
    assert "lower --kv-memory" in refused("serve", "--model", model(), "--port", "0", "--kv-memory", "60TiB")


@test
def a_file_that_is_no_model_is_one_sentence():
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(b"not a model" * 100)
        file.flush()
        assert file.name.rsplit("/")[-1] in refused("serve", "--model", file.name)


@test
def a_wrong_command_line_is_exit_status_2():
    assert "did you mean --port?" in refused("serve", "--prot", "1", status=2)
    assert "65535" in refused("serve", "--port", "99999", status=2)
    for arguments in (("sevre",), ("help", "sevre")):
        assert 'no command "sevre"' in refused(*arguments, status=2)
    assert "needs a value" in refused("serve", "--port", status=2)


@test
def chat_answers_a_line_of_standard_input():
    arguments = ("chat", "--model", model(), "--max-tokens", "4", "--temperature", "0", *KV)
    done = call(*arguments, text="Say hello.\n")
    assert done.returncode == 0 and done.stdout.strip() != "" and done.stderr == "", (done.stdout, done.stderr)


@test
def tokenize_replaces_what_is_not_text():
    arguments = [binary(), "tokenize", "--model", model(), "--json"]
    done = subprocess.run(arguments, input=b"a\xe2\x82z\xff", capture_output=True, timeout=120)
    again = subprocess.run(arguments, input="a\ufffdz\ufffd".encode(), capture_output=True, timeout=120)
    assert done.returncode == 0 and json.loads(done.stdout) == json.loads(again.stdout), done.stderr


if __name__ == "__main__":
    sys.exit(_harness.run())
