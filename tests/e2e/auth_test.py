"""Who may ask: keys and their limits, Host and Origin of a server on loopback, web pages, the admin key."""
import hashlib
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

import _harness
from _harness import Server, binary, model, test

KV = ("--kv-memory", "256MiB")
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
BODY = {"prompt": "a", "max_tokens": 1}


def raw(server, text):
    """The reply to these bytes: status, headers, body."""
    with socket.create_connection((server.host, server.port), timeout=_harness.REPLY_S) as connection:
        connection.sendall(text.encode())
        connection.shutdown(socket.SHUT_WR)
        data = b""
        while more := connection.recv(65536):
            data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return _harness.Reply(int(lines[0].split()[1]), headers, body)


def refusal(reply, status, code, kind):
    assert reply.status == status, f"{reply.status} instead of {status}: {reply.body[:300]}"
    error = _harness.check_error(reply)
    assert (error["code"], error["type"], error["param"]) == (code, kind, None), error
    return error["message"]


def denied(reply):
    return refusal(reply, 403, "permission_denied", "permission_error")


def unknown(reply):
    assert reply.headers["www-authenticate"] == "Bearer", reply.headers
    return refusal(reply, 401, "invalid_api_key", "authentication_error")


def limited(reply):
    assert 1 <= int(reply.headers["retry-after"]) <= 30, reply.headers
    return refusal(reply, 429, "rate_limit_exceeded", "rate_limit_error")


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def start_fails(*options):
    command = [binary(), "serve", "--model", model(), "--port", "0", *KV, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr.startswith("incipit: ") and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


# ---- no key, on loopback ----


@test
def only_names_of_this_machine_are_answered(server):
    for host in ("localhost", "localhost:1", "127.0.0.1", "127.9.9.9:80", "[::1]:8080", "a.localhost", "LOCALHOST"):
        reply = raw(server, f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n")
        assert reply.status == 200, (host, reply.status)
    for host in ("evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"):
        for path in ("/v1/models", "/health", "/nothing"):
            message = denied(raw(server, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            assert "Host" in message and host in message and "--allowed-host" in message, message
    assert raw(server, "GET /v1/models HTTP/1.1\r\n\r\n").status == 400
    assert raw(server, "GET /v1/models HTTP/1.0\r\n\r\n").status == 200
    assert raw(server, "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n").status == 400


@test
def only_pages_of_this_machine_may_ask(server):
    for origin in ("http://localhost:3000", "http://127.0.0.1", "https://[::1]:1", "http://app.localhost"):
        reply = server.post(COMPLETIONS, BODY, headers={"Origin": origin})
        assert reply.status == 200 and "access-control-allow-origin" not in reply.headers, (origin, reply.headers)
    for origin in ("https://evil.example", "null", "http://localhost.evil.example", "file://", ""):
        for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
            reply = server.post(COMPLETIONS, BODY, headers={**headers, "Origin": origin})
            message = denied(reply)
            assert "Origin" in message and "--cors-origin" in message, message
            assert not any(name.startswith("access-control") for name in reply.headers), reply.headers
        denied(server.request("OPTIONS", COMPLETIONS, headers={"Origin": origin}))
    assert server.health()["requests"] == 4


@test
def any_key_is_as_good_as_none_where_none_is_asked_for(server):
    for headers in ({}, bearer("sk-anything"), {"x-api-key": "anything"}, {"Authorization": "Basic eDp5"}):
        assert server.get("/v1/models", headers=headers).status == 200, headers


@test
def options_widen_whom_it_answers(_):
    origins = "https://page.example, http://other.example:81"
    with Server("--cors-origin", origins, "--allowed-host", "llm.example.com,box", *KV) as server:
        for host in ("llm.example.com", "LLM.example.com:443", "box", "localhost"):
            assert raw(server, f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n").status == 200, host
        denied(raw(server, "GET /v1/models HTTP/1.1\r\nHost: x.llm.example.com\r\n\r\n"))
        for origin in ("https://page.example", "http://other.example:81"):
            reply = server.get("/v1/models", headers={"Origin": origin})
            assert reply.status == 200 and reply.headers["access-control-allow-origin"] == origin, reply.headers
            assert reply.headers["vary"] == "Origin" and "x-request-id" in reply.headers["access-control-expose-headers"]
        denied(server.get("/v1/models", headers={"Origin": "https://evil.example"}))
        own = server.get("/v1/models", headers={"Origin": "https://llm.example.com"})
        assert own.status == 200 and "access-control-allow-origin" not in own.headers, own.headers
    for option, value in (("--cors-origin", "https://page/"), ("--allowed-host", "box:80")):
        assert option in start_fails(option, value), value


@test
def a_preflight_says_what_pages_may_send(_):
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-os"}
    with Server("--cors-origin", "https://page.example", "--api-key", "secret-key", *KV) as server:
        reply = server.request("OPTIONS", CHAT, headers={"Origin": "https://page.example", **asks})
        assert reply.status == 204 and reply.body == b"", reply.status
        assert reply.headers["access-control-allow-origin"] == "https://page.example"
        assert reply.headers["access-control-allow-methods"] == "GET, POST, OPTIONS, DELETE, HEAD"
        assert reply.headers["access-control-allow-headers"] == asks["Access-Control-Request-Headers"]
        assert int(reply.headers["access-control-max-age"]) > 0
        other = server.request("OPTIONS", CHAT, headers={"Origin": "https://evil.example", **asks})
        assert not any(name.startswith("access-control") for name in other.headers), other.headers
        error = server.post(CHAT, {}, headers={"Origin": "https://page.example"})
        unknown(error)
        assert error.headers["access-control-allow-origin"] == "https://page.example"


# ---- keys ----


@test
def one_key_opens_everything_and_nothing_else_does(_):
    with Server("--api-key", "secret-key", *KV) as server:
        wrong = [{}, bearer(""), bearer("secret-ke"), bearer("secret-keyy"), bearer("SECRET-KEY"), bearer("a b")]
        wrong += [{"x-api-key": ""}, {"x-api-key": "Bearer secret-key"}, {"Authorization": "secret-key"}]
        wrong += [{"Authorization": "Basic secret-key"}, {"Authorization": "Bearersecret-key"}]
        messages = set()
        for headers in wrong:
            for method, path in (("POST", CHAT), ("GET", "/v1/models"), ("GET", "/"), ("GET", "/nothing"), ("PUT", CHAT)):
                messages.add(unknown(server.request(method, path, BODY if method == "POST" else None, headers=headers)))
        assert len(messages) == 1, messages
        right = [bearer("secret-key"), {"Authorization": "bearer \tsecret-key "}, {"x-api-key": "secret-key"}]
        right += [{"X-API-Key": "secret-key", **bearer("dummy")}, {**bearer("secret-key"), "x-api-key": "dummy"}]
        for headers in right:
            assert server.get("/v1/models", headers=headers).status == 200, headers
            assert server.post(COMPLETIONS, BODY, headers=headers).status == 200, headers
            assert server.get("/nothing", headers=headers).status == 404, headers
        for path in ("/health", "/ping", "/v1/health"):
            assert server.get(path).status == 200 and server.request("HEAD", path).status == 200, path
        assert server.request("OPTIONS", CHAT).status == 204
        reply = server.request("HEAD", "/v1/models")
        assert reply.status == 401 and reply.body == b"", reply.status
        # The key is what protects it: any name and any page may ask.
        reply = server.get("/v1/models", headers={**bearer("secret-key"), "Host": "any.example", "Origin": "https://a.b"})
        assert reply.status == 200 and "access-control-allow-origin" not in reply.headers, reply.headers
        log = server.read_log()
        assert "secret" not in log.lower() and "invalid_api_key" in log, log[-500:]


@test
def a_body_without_a_key_is_read_and_forgotten(_):
    with Server("--api-key", "secret-key", *KV) as server:
        before = resident_kib(server)
        connection = server.connect()
        data = b'{"prompt":"' + b"a" * (48 << 20) + b'"}'
        for _ in range(3):
            unknown(server.post(COMPLETIONS, data, connection=connection))
        connection.close()
        assert resident_kib(server) - before < 16 << 10
        head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
        assert raw(server, head).status == 401


def resident_kib(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def keys_file(folder, text):
    path = pathlib.Path(folder, "keys.yaml")
    path.write_text(text)
    return str(path)


@test
def each_key_of_a_file_has_its_own_limits(_):
    digest = hashlib.sha256(b"key-b").hexdigest()
    text = f"- {{name: a, key: key-a, requests_per_minute: 2}}\n- name: b\n  key_sha256: {digest}\n  max_concurrent: 1\n"
    with tempfile.TemporaryDirectory() as folder:
        with Server("--api-keys", keys_file(folder, text), "--api-key", "single", *KV) as server:
            assert [server.get("/v1/models", headers=bearer("key-a")).status for _ in range(2)] == [200, 200]
            message = limited(server.get("/v1/models", headers=bearer("key-a")))
            assert "2 times a minute" in message, message
            assert server.get("/health", headers=bearer("key-a")).status == 200
            unknown(server.get("/v1/models", headers=bearer(digest)))

            stream = _harness.RawRequest(server, COMPLETIONS, {**BODY, "max_tokens": 2000, "stream": True}, bearer("key-b"))
            stream.read_until(b"data: ")
            message = limited(server.post(COMPLETIONS, BODY, headers=bearer("key-b")))
            assert "1 requests at once" in message, message
            for _ in range(3):
                assert server.get("/v1/models", headers=bearer("single")).status == 200
            opened = server.get("/metrics", headers=bearer("single"))
            assert opened.status == 200 and b"incipit_" in opened.body, opened.status
            unknown(server.get("/metrics"))
            stream.close()
            assert server.wait_until(lambda state: state["running"] == 0, 5) is not None
            assert server.post(COMPLETIONS, BODY, headers=bearer("key-b")).status == 200
            assert "key-" not in server.read_log()


@test
def the_admin_key_opens_the_numbers_and_nothing_else_does(_):
    with Server("--api-key", "single", "--admin-key", "root-key", *KV) as server:
        for headers in (bearer("root-key"), {"x-api-key": "root-key"}, {**bearer("single"), "x-api-key": "root-key"}):
            assert server.get("/metrics", headers=headers).status == 200
            assert server.request("HEAD", "/v1/metrics", headers=headers).status == 200
        unknown(server.get("/v1/models", headers=bearer("root-key")))
        for headers in ({}, bearer("single"), bearer("root-ke")):
            unknown(server.get("/metrics", headers=headers))


@test
def a_mistake_in_a_file_of_keys_is_told_with_its_line(_):
    with tempfile.TemporaryDirectory() as folder:
        path = keys_file(folder, "- name: a\n  key: hunter2\n- name: b\n  kye: hunter2\n")
        sentence = start_fails("--api-keys", path)
        assert f"{path} line 4" in sentence and "hunter2" not in sentence, sentence
        assert "missing.yaml" in start_fails("--api-keys", str(pathlib.Path(folder, "missing.yaml")))
        assert "missing.txt" in start_fails("--api-key", "@" + str(pathlib.Path(folder, "missing.txt")))
        assert "--api-key is not a key" in start_fails("--api-key", "two words")


def cached_tokens(server, key):
    body = {"prompt": "The same long text for everybody. " * 20, "max_tokens": 1}
    reply = server.post(COMPLETIONS, body, headers=bearer(key))
    assert reply.status == 200, reply.body
    return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


@test
def no_namespace_sees_the_cache_of_another(_):
    text = "".join(
        f"- {{name: {name}, key: key-{name}{more}}}\n"
        for name, more in (("a", ""), ("b", ""), ("c", ", namespace: team"), ("d", ", namespace: team"))
    )
    with tempfile.TemporaryDirectory() as folder:
        options = ("--api-keys", keys_file(folder, text), "--api-key", "single", *KV)
        with Server(*options) as server:
            for key in ("single", "key-a", "key-b", "key-c"):
                assert cached_tokens(server, key) == 0, key
                assert cached_tokens(server, key) > 64, key
            assert cached_tokens(server, "key-d") > 64


@test
def the_file_is_read_again_when_asked_for(_):
    with tempfile.TemporaryDirectory() as folder:
        path = keys_file(folder, "- {name: a, key: key-a}\n")
        with Server("--api-keys", path, *KV) as server:
            keys_file(folder, "- {name: b, key: key-b}\n")
            server.process.send_signal(signal.SIGHUP)
            wait_for_log(server, "were read again")
            unknown(server.get("/v1/models", headers=bearer("key-a")))
            assert server.get("/v1/models", headers=bearer("key-b")).status == 200
            keys_file(folder, "- {name: b}\n")
            server.process.send_signal(signal.SIGHUP)
            wait_for_log(server, f"stay as they were: {path} line 1")
            assert server.get("/v1/models", headers=bearer("key-b")).status == 200
            assert server.stop() == 0


def wait_for_log(server, text):
    for _ in range(1000):
        if text in server.read_log():
            return
        server.get("/health")
    raise AssertionError(server.read_log()[-500:])


@test
def a_key_may_stand_in_a_file_or_in_the_configuration(_):
    with tempfile.TemporaryDirectory() as folder:
        secret = pathlib.Path(folder, "secret")
        secret.write_text("key-of-a-file\n")
        config = pathlib.Path(folder, "server.yaml")
        config.write_text(f'api-key: "@{secret}"\nkv-memory: 256MiB\n')
        with Server("--config", str(config)) as server:
            unknown(server.get("/v1/models"))
            assert server.get("/v1/models", headers=bearer("key-of-a-file")).status == 200


# ---- who is let in from elsewhere ----


@test
def a_server_that_anybody_reaches_says_so(_):
    with Server("--host", "0.0.0.0", *KV) as server:
        log = server.read_log()
        assert " warn " in log and "--api-key" in log, log
        assert "WARNING" in server.banner and "--api-key" in server.banner, server.banner
        reply = raw(server, "GET /v1/models HTTP/1.1\r\nHost: any.example\r\nOrigin: https://page\r\n\r\n")
        assert reply.status == 200
    with Server("--host", "0.0.0.0", "--api-key", "secret-key", *KV) as server:
        assert " warn " not in server.read_log() and "WARNING" not in server.banner, server.banner
        unknown(server.get("/v1/models"))


if __name__ == "__main__":
    with Server(*KV) as main_server:
        sys.exit(_harness.run(main_server))
