"""What the real server's /metrics says: the format, exact numbers of a scripted run, and that looking disturbs nobody."""
import pathlib
import random
import re
import sys
import threading

import _exposition
import _harness
from _exposition import Numbers
from _harness import Server, test

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
OPTIONS = ("--max-sequences", "2", "--max-queue", "2", "--kv-memory", "256MiB", "--log-format", "json")
HISTOGRAMS = {
    "incipit_time_to_first_token_seconds": "vllm:time_to_first_token_seconds",
    "incipit_inter_token_seconds": "vllm:inter_token_latency_seconds",
    "incipit_queue_seconds": "vllm:request_queue_time_seconds",
    "incipit_prefill_seconds": "vllm:request_prefill_time_seconds",
    "incipit_decode_seconds": "vllm:request_decode_time_seconds",
    "incipit_request_seconds": "vllm:e2e_request_latency_seconds",
    "incipit_request_prompt_tokens": "vllm:request_prompt_tokens",
    "incipit_request_generated_tokens": "vllm:request_generation_tokens",
}


def prompt(which, count):
    return [random.Random(which * 1000 + i).randrange(1000, 40000) for i in range(count)]


def vllm_labels(server):
    return {"model_name": server.get("/v1/models").json()["data"][0]["id"], "engine": "0"}


def is_idle(state):
    return state["running"] == 0 and state["waiting"] == 0


class Changes:
    """What has been counted since it was made."""

    def __init__(self, server):
        self.server = server
        self.before = Numbers(server)

    def expect(self, expected):
        """{name or (name, label, value): change}"""
        after = Numbers(self.server)
        for key, change in expected.items():
            name, labels = (key, {}) if isinstance(key, str) else (key[0], {key[1]: key[2]})
            if name.startswith("vllm:"):
                labels |= vllm_labels(self.server)
            found = after(name, **labels) - self.before(name, **labels)
            assert found == change, f"{key}: {found} instead of {change}"


@test
def get_and_head_answer_with_and_without_v1(server):
    for path in ("/metrics", "/v1/metrics", "/metrics?name=a"):
        reply = server.get(path)
        assert reply.status == 200 and reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        _exposition.parse(reply.body.decode())
        head = server.request("HEAD", path)
        assert head.status == 200 and head.body == b"", head.body
        assert head.headers["content-type"] == reply.headers["content-type"]
        assert abs(int(head.headers["content-length"]) - len(reply.body)) < 4000
    reply = server.post("/metrics", {})
    assert reply.status == 405 and _harness.check_error(reply)["code"] == "method_not_allowed"
    assert reply.headers["allow"] == "GET, HEAD, OPTIONS", reply.headers


@test
def the_list_of_names_is_true(server):
    listed = (pathlib.Path(__file__).parents[2] / "configs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| (\w+) \| (.*) \|$", listed, re.M)
    found = [(f.name, f.kind, f.help) for f in Numbers(server).families.values()]
    assert rows == found, "configs/metrics.md should list:\n" + "\n".join(f"| `{n}` | {k} | {h} |" for n, k, h in found)


@test
def tokens_and_lookups_are_exact(server):
    changes = Changes(server)
    ask = {"prompt": prompt(1, 100), "max_tokens": 5, "ignore_eos": True}
    cached = [server.ok(COMPLETIONS, ask)["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(3)]
    assert cached[0] == 0 and cached[1] > 90, cached
    changes.expect({
        "incipit_requests_total": 3,
        "incipit_prompt_tokens_total": 300, "vllm:prompt_tokens_total": 300,
        "incipit_cached_tokens_total": sum(cached), "vllm:prompt_tokens_cached_total": sum(cached),
        "incipit_prefix_cache_queries_total": 300, "vllm:prefix_cache_queries_total": 300,
        "incipit_prefix_cache_hits_total": sum(cached), "vllm:prefix_cache_hits_total": sum(cached),
        "incipit_computed_tokens_total": 300 - sum(cached),
        "incipit_generated_tokens_total": 15, "vllm:generation_tokens_total": 15,
        ("incipit_requests_finished_total", "reason", "length"): 3,
        ("vllm:request_success_total", "finished_reason", "length"): 3,
        ("incipit_requests_finished_total", "reason", "stop"): 0,
    })


@test
def histograms_count_each_request_once(server):
    changes = Changes(server)
    for stream in (False, True):
        body = {"prompt": prompt(2, 40), "max_tokens": 6, "ignore_eos": True, "n": 2}
        server.stream(COMPLETIONS, body) if stream else server.ok(COMPLETIONS, body)
    expected = {}
    for names in HISTOGRAMS.items():
        for name in names:
            expected[name + "_count"] = 20 if "inter_token" in name else 2
    changes.expect({
        **expected,
        "incipit_request_prompt_tokens_sum": 80,
        "incipit_request_generated_tokens_sum": 24,
        "vllm:request_generation_tokens_sum": 24,
    })
    now = Numbers(server)
    parts = sum(now(f"incipit_{part}_seconds_sum") for part in ("queue", "prefill", "decode"))
    assert abs(parts - now("incipit_request_seconds_sum")) < 1e-6 * now("incipit_request_seconds_count") + 1e-9


@test
def buckets_are_those_of_vllm(server):
    families = Numbers(server).families
    bounds = {name: [float(dict(labels)["le"]) for suffix, labels in family.samples if suffix == "_bucket"]
              for name, family in families.items() if family.kind == "histogram"}
    for ours, theirs in HISTOGRAMS.items():
        assert bounds[ours] == bounds[theirs], ours
    assert bounds["vllm:request_queue_time_seconds"][:4] == [0.3, 0.5, 0.8, 1.0]
    context = server.get("/v1/models").json()["data"][0]["max_model_len"]
    assert bounds["vllm:request_prompt_tokens"][-2] == max(
        m * 10**e for m in (1, 2, 5) for e in range(7) if m * 10**e <= context), bounds["vllm:request_prompt_tokens"]


@test
def ends_have_their_reasons(server):
    text = server.ok(COMPLETIONS, {"prompt": prompt(3, 20), "max_tokens": 8, "temperature": 0})["choices"][0]["text"]
    changes = Changes(server)
    body = {"prompt": prompt(3, 20), "max_tokens": 8, "temperature": 0, "stop": text[:2]}
    assert server.ok(COMPLETIONS, body)["choices"][0]["finish_reason"] == "stop"
    request = server.open_stream(COMPLETIONS, {"prompt": prompt(4, 10), "max_tokens": 4000, "ignore_eos": True,
                                               "stream": True})
    request.read_until(b'"text"')
    request.close()
    assert server.wait_until(is_idle, 20) is not None
    changes.expect({
        ("incipit_requests_finished_total", "reason", "stop"): 1,
        ("incipit_requests_finished_total", "reason", "length"): 0,
        ("incipit_requests_cancelled_total", "reason", "disconnected"): 1,
        ("incipit_requests_cancelled_total", "reason", "cancelled"): 0,
        ("vllm:request_success_total", "finished_reason", "stop"): 1,
        ("vllm:request_success_total", "finished_reason", "abort"): 1,
        ("vllm:request_success_total", "finished_reason", "error"): 0,
        "incipit_queue_seconds_count": 2,
        "incipit_request_seconds_count": 1,
        "incipit_requests_failed_total": 0,
    })


@test
def refusals_are_counted_by_their_code(server):
    changes = Changes(server)
    for _ in range(2):
        server.error(CHAT, "{")
        server.error(COMPLETIONS, {"prompt": [1] * 9000})
        assert server.get("/nothing/here").status == 404
        assert server.get(CHAT).status == 405
    changes.expect({
        ("incipit_requests_refused_total", "reason", "invalid_json"): 2,
        ("incipit_requests_refused_total", "reason", "context_length_exceeded"): 2,
        ("incipit_requests_refused_total", "reason", "not_found"): 2,
        ("incipit_requests_refused_total", "reason", "method_not_allowed"): 2,
        "incipit_requests_total": 0,
    })
    after = Numbers(server)
    for endpoint, status, change in (("/chat/completions", "4xx", 2), ("/completions", "4xx", 2), ("other", "4xx", 4)):
        labels = {"endpoint": endpoint, "status": status}
        found = after("incipit_http_responses_total", **labels)
        assert found - changes.before("incipit_http_responses_total", **labels) == change, labels


@test
def unknown_fields_are_ignored_and_counted(server):
    changes = Changes(server)
    server.ok(COMPLETIONS, {"prompt": "a", "max_tokens": 1, "max_tokenz": 5, "who_knows": {"a": 1}, "user": "u"})
    server.ok("/tokenize", {"prompt": "a", "whatever": None, "other": 0})
    changes.expect({"incipit_ignored_fields_total": 4})


@test
def those_that_run_and_wait_are_shown(server):
    ask = {"max_tokens": 4000, "ignore_eos": True, "stream": True}
    requests = []
    for i, count in enumerate((10, 10, 20, 2000)):
        requests.append(server.open_stream(COMPLETIONS, {**ask, "prompt": prompt(10 + i, count)}))
        if i < 2:
            requests[i].read_until(b'"text"')
    try:
        assert server.wait_until(lambda state: state["waiting"] == 2, 20) is not None
        while (now := Numbers(server))("incipit_requests_waiting_by_length", prompt_tokens="unknown") > 0:
            continue
        assert now("incipit_requests_running") == now("vllm:num_requests_running", **vllm_labels(server)) == 2
        assert now("incipit_requests_waiting") == now("vllm:num_requests_waiting", **vllm_labels(server)) == 2
        for tokens, waiting in (("0-256", 1), ("257-1024", 0), ("1025-4096", 1), ("4097-16384", 0)):
            assert now("incipit_requests_waiting_by_length", prompt_tokens=tokens) == waiting, tokens
        assert server.post(COMPLETIONS, {**ask, "prompt": "a"}).status == 429
        later = Numbers(server)
        refused = {"reason": "queue_full"}
        assert later("incipit_requests_refused_total", **refused) == now("incipit_requests_refused_total", **refused) + 1
        assert 0 < now("incipit_kv_usage_ratio") < 1
        pages = sum(now("incipit_kv_pages", state=state) for state in ("free", "leased", "cached"))
        assert pages == now("incipit_kv_pages_capacity")
    finally:
        for request in requests:
            request.close()
    assert server.wait_until(is_idle, 20) is not None
    now = Numbers(server)
    assert now("incipit_requests_running") == now("incipit_requests_waiting") == now("incipit_kv_usage_ratio") == 0


@test
def the_process_and_the_build_are_told(server):
    now = Numbers(server)
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    resident = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024
    fds = len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir()))
    assert abs(now("process_resident_memory_bytes") - resident) < 64 << 20
    assert abs(now("process_open_fds") - fds) <= 1, (now("process_open_fds"), fds)
    assert now("process_cpu_seconds_total") > 0 and now("process_max_fds") >= fds
    version = server.get("/version").json()["version"]
    assert now("incipit_build_info", version=version) == 1
    config = next(iter(now.families["vllm:cache_config_info"].samples))[1]
    assert dict(config) == {**vllm_labels(server), "block_size": "32", "enable_prefix_caching": "True",
                            "num_gpu_blocks": str(int(now("incipit_kv_pages_capacity")))}
    assert now("incipit_engine_stuck") == 0


@test
def looking_disturbs_nobody(server):
    body = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, "ignore_eos": True}
    alone = server.ok(COMPLETIONS, body)["choices"][0]["text"]
    texts, looks, failures, done = [], [], [], threading.Event()

    def generate():
        while not failures and len(set(looks)) < 4:
            texts.append("".join(f["choices"][0]["text"] for f in server.stream(COMPLETIONS, body)))

    def look():
        connection, before = server.connect(), 0
        try:
            while not done.is_set():
                drawn = Numbers(server, connection=connection)("incipit_generated_tokens_total")
                assert drawn >= before, (drawn, before)
                before = drawn
                looks.append(drawn)
        except Exception as error:  # it is told by the thread that waits
            failures.append(error)
        connection.close()

    generators = [threading.Thread(target=generate) for _ in range(2)]
    lookers = [threading.Thread(target=look) for _ in range(2)]
    for thread in generators + lookers:
        thread.start()
    for thread in generators:
        thread.join()
    done.set()
    for thread in lookers:
        thread.join()
    assert not failures, failures
    assert len(texts) > 0 and set(texts) == {alone}, texts


if __name__ == "__main__":
    with Server(*OPTIONS) as main_server:
        sys.exit(_harness.run(main_server))
