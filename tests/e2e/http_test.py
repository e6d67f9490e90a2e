"""The wire contract of the real server: replies, streams, errors, limits, the cache as clients see it, hang-ups."""
import json
import os
import random
import statistics
import sys
import threading
import time

import _harness
from _harness import Server, test

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
HANG_UP_S = 0.2 * _harness.SLOWNESS

counter = 0


def fresh():
    """Text that no prompt had before."""
    global counter
    counter += 1
    return f"Note {counter * 7919 % 100003} on {counter}: "


def chat(text, **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 12, **more}


def completion(text, **more):
    return {"prompt": text, "temperature": 0, "max_tokens": 12, **more}


def choice_text(choice):
    return choice["message"]["content"] if "message" in choice else choice["text"]


def merge(frames, index=0):
    """The text, finish reason and usage of a stream's choice."""
    text, reason, usage = "", None, None
    for frame in frames:
        usage = frame.get("usage") or usage
        for choice in frame["choices"]:
            if choice["index"] == index:
                text += choice["delta"].get("content", "") if "delta" in choice else choice["text"]
                reason = choice["finish_reason"] or reason
    return text, reason, usage


# ---- replies ----


@test
def models_are_listed_and_found_by_id(server):
    body = server.get("/v1/models").json()
    model = body["data"][0]
    assert body["object"] == "list" and model["object"] == "model" and model["max_model_len"] > 0
    quoted = "".join(f"%{byte:02X}" for byte in model["id"].encode())
    for path in (f"/v1/models/{quoted}", f"/models/{quoted}?x=1"):
        assert server.get(path).json() == model, path
    reply = server.get("/v1/models/no/such")
    assert reply.status == 404 and _harness.check_error(reply)["code"] == "model_not_found"


@test
def a_chat_reply_has_its_members(server):
    body = server.ok(CHAT, {"model": "any name", **chat("Say hello.")})
    assert body["object"] == "chat.completion" and body["model"] == "any name" and body["id"].startswith("chatcmpl-")
    choice = body["choices"][0]
    assert choice["message"]["role"] == "assistant" and choice["message"]["refusal"] is None
    assert choice["message"]["content"] and choice["finish_reason"] in ("stop", "length") and choice["logprobs"] is None
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert 0 < usage["completion_tokens"] <= 12


@test
def a_stream_is_the_body_in_pieces(server):
    for path, body in ((CHAT, chat(fresh() + "Tell a story.")), (COMPLETIONS, completion(fresh() + "Once upon"))):
        body["logprobs"] = True if path == CHAT else 3
        if path == CHAT:
            body["top_logprobs"] = 3
        whole = server.ok(path, body)
        frames = server.stream(path, {**body, "stream_options": {"include_usage": True}})
        text, reason, usage = merge(frames)
        choice = whole["choices"][0]
        assert text == choice_text(choice) and reason == choice["finish_reason"]
        assert usage["completion_tokens"] == whole["usage"]["completion_tokens"]
        assert frames[-1]["choices"] == [] and all(frame["usage"] is None for frame in frames[:-1])
        assert len({(frame["id"], frame["created"], frame["model"]) for frame in frames}) == 1
        pieces = [c["logprobs"] for frame in frames for c in frame["choices"] if c["logprobs"]]
        if path == CHAT:
            assert sum((piece["content"] for piece in pieces), []) == choice["logprobs"]["content"]
            roles = [c["delta"]["role"] for frame in frames for c in frame["choices"] if "role" in c["delta"]]
            assert roles == ["assistant"] and "role" in frames[0]["choices"][0]["delta"]
        else:
            for key in choice["logprobs"]:
                assert sum((piece[key] for piece in pieces), []) == choice["logprobs"][key], key


@test
def usage_in_a_stream_comes_only_when_asked(server):
    assert all("usage" not in frame for frame in server.stream(CHAT, chat("Hi")))


@test
def cached_tokens_is_an_integer_everywhere(server):
    for path, make in ((CHAT, chat), (COMPLETIONS, completion)):
        for stream in (False, True):
            text = fresh() + "what is the weather like in the mountains today?"
            body = make(text)
            seen = []
            for _ in range(3):
                if stream:
                    usage = server.stream(path, {**body, "stream_options": {"include_usage": True}})[-1]["usage"]
                else:
                    usage = server.ok(path, body)["usage"]
                cached = usage["prompt_tokens_details"]["cached_tokens"]
                assert type(cached) is int and 0 <= cached < usage["prompt_tokens"], usage
                seen.append((cached, usage["prompt_tokens"]))
            assert seen[0][0] < seen[0][1] // 2 or path == CHAT, seen
            assert seen[1][0] == seen[2][0] == seen[1][1] - 1, seen


@test
def warm_equals_cold_to_the_last_bit(server):
    body = chat(fresh() + "Count to ten.", logprobs=True, top_logprobs=5)
    first = server.ok(CHAT, body)
    second = server.ok(CHAT, body)
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == first["usage"]["prompt_tokens"] - 1
    assert first["choices"] == second["choices"]


@test
def a_growing_conversation_computes_only_what_is_new(server):
    messages = [{"role": "user", "content": fresh() + "Let us talk about rivers."}]
    before = 0
    for turn in range(4):
        body = server.ok(CHAT, {"messages": messages, "temperature": 0, "max_tokens": 16})
        usage = body["usage"]
        if turn > 0:
            assert usage["prompt_tokens_details"]["cached_tokens"] >= before, (turn, usage, before)
        before = usage["prompt_tokens"]
        messages.append(body["choices"][0]["message"])
        messages.append({"role": "user", "content": "And then?"})


@test
def several_choices_share_the_prompt(server):
    body = server.ok(COMPLETIONS, {"prompt": fresh() + "The", "n": 3, "max_tokens": 6, "seed": 5, "temperature": 1.5})
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert len({choice["text"] for choice in body["choices"]}) > 1
    single = server.ok(COMPLETIONS, completion("The"))["usage"]
    assert body["usage"]["prompt_tokens"] < 2 * single["prompt_tokens"] + 40
    frames = server.stream(CHAT, chat("Hi", n=2, temperature=1, seed=1))
    firsts = [frame["choices"][0]["index"] for frame in frames if "role" in frame["choices"][0]["delta"]]
    assert firsts == [0, 1]
    for index in (0, 1):
        assert merge(frames, index)[1] in ("stop", "length")


@test
def a_seed_decides_the_text(server):
    body = {"prompt": "A list of strange animals:", "max_tokens": 12, "temperature": 1.2, "seed": 77}
    texts = {server.ok(COMPLETIONS, body)["choices"][0]["text"] for _ in range(3)}
    assert len(texts) == 1
    others = {server.ok(COMPLETIONS, {**body, "seed": seed})["choices"][0]["text"] for seed in range(4)}
    assert len(others) > 1


@test
def a_stop_string_ends_the_text_before_it(server):
    body = completion("One two three four five", max_tokens=24)
    for path, make in ((COMPLETIONS, completion), (CHAT, chat)):
        body = make("Count: one, two, three, four, five, six, seven", max_tokens=24)
        whole = choice_text(server.ok(path, body)["choices"][0])
        stop = whole[len(whole) // 2 : len(whole) // 2 + 4]
        cut = whole[: whole.index(stop)]
        for extra, wanted in (({}, cut), ({"include_stop_str_in_output": True}, cut + stop)):
            choice = server.ok(path, {**body, "stop": [stop], **extra})["choices"][0]
            assert (choice_text(choice), choice["finish_reason"]) == (wanted, "stop"), (whole, stop, choice)
            text, reason, _ = merge(server.stream(path, {**body, "stop": stop, **extra}))
            assert (text, reason) == (wanted, "stop")


@test
def limits_on_tokens_are_kept(server):
    body = server.ok(COMPLETIONS, completion("Hello", max_tokens=0))
    assert body["choices"][0]["text"] == "" and body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 0
    body = server.ok(COMPLETIONS, completion("Hello", max_tokens=30, ignore_eos=True))
    assert body["usage"]["completion_tokens"] == 30 and body["choices"][0]["finish_reason"] == "length"
    body = server.ok(CHAT, chat("Hi", max_tokens=2, max_completion_tokens=5, ignore_eos=True))
    assert body["usage"]["completion_tokens"] == 5


@test
def a_prompt_that_cannot_fit_is_refused_at_once(_):
    context = 256
    with Server("--context", str(context), "--kv-memory", "64MiB") as server:
        assert server.get("/v1/models").json()["data"][0]["max_model_len"] == context
        for path, body, param in (
            (CHAT, chat("word " * (context + 100)), "messages"),
            (COMPLETIONS, {**completion(""), "prompt": [504] * context}, "prompt"),
            (COMPLETIONS, {**completion(""), "prompt": [504] * context, "stream": True}, "prompt"),
        ):
            error = server.error(path, body)
            assert error["code"] == "context_length_exceeded" and error["param"] == param, error
            assert f"maximum context length is {context} tokens" in error["message"], error
        body = {"prompt": [504] * (context - 2), "max_tokens": 32000, "ignore_eos": True}
        reply = server.ok(COMPLETIONS, body)
        assert reply["usage"]["completion_tokens"] in (2, 3) and reply["choices"][0]["finish_reason"] == "length"


@test
def tokenize_and_detokenize_take_both_shapes(server):
    text = "Hello, w\u00f6rld \U0001f600 <|im_start|>"
    ours = server.ok("/tokenize", {"prompt": text, "add_special_tokens": False})
    theirs = server.ok("/tokenize", {"content": text})
    assert ours["tokens"] == theirs["tokens"] and ours["count"] == len(ours["tokens"])
    body = server.ok("/detokenize", {"tokens": ours["tokens"]})
    assert body["prompt"] == body["content"] == text
    control = server.ok("/detokenize", {"tokens": [1]})["prompt"]
    assert 1 not in server.ok("/tokenize", {"prompt": control, "add_special_tokens": False})["tokens"]
    for body in ({"with_pieces": True}, {"return_token_strs": True}, {"with_pieces": True, "return_token_strs": True}):
        reply = server.ok("/tokenize", {"content": "a b", **body})
        if "with_pieces" in body:
            assert "".join(piece["piece"] for piece in reply["tokens"]) == "a b", reply
        strings = reply["token_strs"]
        assert strings is None if "return_token_strs" not in body else "".join(strings) == "a b", reply
    request = chat("How many tokens is this?")
    count = server.ok("/tokenize", {"messages": request["messages"]})["count"]
    assert count == server.ok(CHAT, request)["usage"]["prompt_tokens"]
    ids = server.ok("/tokenize", {"messages": request["messages"]})["tokens"]
    by_ids = server.ok(COMPLETIONS, {**completion(""), "prompt": ids})["choices"][0]["text"]
    assert by_ids == server.ok(CHAT, request)["choices"][0]["message"]["content"]


@test
def token_ids_are_returned_when_asked(server):
    body = server.ok(COMPLETIONS, completion("Hello there", return_token_ids=True, skip_special_tokens=False))
    choice = body["choices"][0]
    assert len(choice["token_ids"]) == body["usage"]["completion_tokens"]
    assert server.ok("/detokenize", {"tokens": choice["token_ids"]})["prompt"] == choice["text"]
    for path, ask, prompt in (
        (COMPLETIONS, completion("Hello there"), {"prompt": "Hello there"}),
        (CHAT, chat("Hello there"), {"messages": chat("Hello there")["messages"]}),
    ):
        ids = server.ok("/tokenize", prompt)["tokens"]
        body = server.ok(path, {**ask, "return_token_ids": True})
        frames = server.stream(path, {**ask, "return_token_ids": True})
        assert body["prompt_token_ids"] == frames[0]["prompt_token_ids"] == ids, path
        assert len(ids) == body["usage"]["prompt_tokens"], path
        assert not any("prompt_token_ids" in frame for frame in frames[1:]), path
        assert "prompt_token_ids" not in server.ok(path, ask), path


# ---- what is refused, and what is not ----


@test
def fields_that_are_not_built_are_named(server):
    for field, value in (
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("tool_choice", "required"),
        ("response_format", {"type": "json_object"}),
        ("audio", {"voice": "a"}),
        ("prompt_logprobs", 1),
    ):
        error = server.error(CHAT, chat("a", **{field: value}))
        assert error["param"] == field and error["code"] == "unsupported_parameter", error
    for field, value in (("suffix", "x"), ("best_of", 3)):
        error = server.error(COMPLETIONS, {**completion("a"), field: value})
        assert error["param"] == field and error["code"] == "unsupported_parameter", error


@test
def bad_values_are_named(server):
    for field, value in (
        ("temperature", 2.5),
        ("temperature", "hot"),
        ("top_p", 0),
        ("repetition_penalty", 1e-9),
        ("n", 0),
        ("max_tokens", -1),
        ("stop", [""]),
        ("logit_bias", {"999999999": 1}),
        ("messages", []),
        ("top_logprobs", 5),
        ("stream_options", {"include_usage": True}),
    ):
        error = server.error(CHAT, chat("a", **{field: value}))
        assert error["param"].startswith(field) and error["type"] == "invalid_request_error", error
    error = server.error(CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})
    assert error["code"] == "unsupported_content" and error["param"] == "messages[0].content[0]", error


@test
def bad_json_is_told_with_its_place(server):
    good = json.dumps(chat("a"))
    for body in ("", "{", good + "x", "[1]", '{"a":01}', "\ufeff" + good, '{"prompt":"a\\u0000b"}', "nul"):
        for path in (CHAT, COMPLETIONS, "/tokenize", "/detokenize"):
            server.error(path, body)
    reply = server.post(CHAT, b'{"messages":[{"role":"user","content":"\xff"}]}')
    assert reply.status == 400 and "byte 39" in reply.json()["error"]["message"], reply.body


@test
def null_is_absent_and_whole_floats_are_integers(server):
    fields = """temperature top_p n stop max_tokens presence_penalty frequency_penalty logit_bias user seed tools
    tool_choice response_format logprobs top_logprobs stream stream_options metadata store reasoning_effort top_k min_p
    repetition_penalty chat_template_kwargs functions function_call audio modalities service_tier""".split()
    body = server.ok(CHAT, {**chat("a"), **{field: None for field in fields}, "max_completion_tokens": 3.0})
    assert body["usage"]["completion_tokens"] <= 3
    server.ok(CHAT, chat("a", tools=[], user="u", metadata={"a": "b"}, store=True, client_metadata={"x": 1}))


@test
def half_an_emoji_does_not_hurt(server):
    body = server.post("/tokenize", '{"prompt":"a\\ud83d","add_special_tokens":false}').json()
    assert server.ok("/detokenize", {"tokens": body["tokens"]})["prompt"] == "a\ufffd"


@test
def content_types_and_paths_are_not_picky(server):
    data = json.dumps(completion("a", max_tokens=1))
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/json; charset=utf-8"}):
        for path in ("/v1/completions", "/completions", "/v1/completions?beta=true"):
            assert server.post(path, data, headers=headers).status == 200, (path, headers)


# ---- HTTP ----


@test
def unknown_paths_and_methods_are_json(server):
    reply = server.get("/v1/nothing")
    assert reply.status == 404 and _harness.check_error(reply)["code"] == "not_found"
    for method, path, allow in (("GET", CHAT, "POST, OPTIONS"), ("DELETE", "/v1/models", "GET, HEAD, OPTIONS")):
        reply = server.request(method, path)
        assert reply.status == 405 and reply.headers["allow"] == allow, reply.headers
        assert _harness.check_error(reply)["code"] == "method_not_allowed"
    for path, status in (("/", 200), ("/health", 200), ("/v1/models", 200), ("/metrics-of-nobody", 404), (CHAT, 405)):
        reply = server.request("HEAD", path)
        assert reply.status == status and reply.body == b"", (path, reply.status)
    reply = server.request("OPTIONS", CHAT, headers={"Access-Control-Request-Headers": "authorization"})
    assert reply.status == 204 and reply.headers["access-control-allow-headers"] == "authorization"


@test
def a_body_that_is_too_large_is_a_413(server):
    data = b'{"prompt":"' + b"a" * (65 << 20) + b'"}'
    connection = server.connect()
    reply = server.post(COMPLETIONS, data, connection=connection)
    assert reply.status == 413 and _harness.check_error(reply)["code"] == "request_too_large"
    assert server.get("/health", connection=connection).status == 200
    connection.close()


@test
def one_connection_serves_many_requests(server):
    connection = server.connect()
    ids = set()
    for turn in range(5):
        reply = server.post(CHAT, chat("Hi", max_tokens=2, stream=bool(turn % 2)), connection=connection)
        assert reply.status == 200
        ids.add(reply.headers["x-request-id"])
        assert server.get("/v1/nothing", connection=connection).status == 404
    assert len(ids) == 5
    connection.close()


@test
def a_chunked_body_is_taken(server):
    connection = server.connect()
    data = json.dumps(completion("a", max_tokens=1)).encode()
    connection.request("POST", COMPLETIONS, body=iter([data[:10], data[10:]]), encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().status == 200
    connection.close()


# ---- many at once, and those who go ----


@test
def clients_at_once_get_what_each_gets_alone(server):
    shared = fresh() + "You know everything about rivers, lakes and seas. " * 12
    bodies = [completion(shared + f"Question {i}: why?", max_tokens=10, logprobs=2) for i in range(16)]
    together = [None] * len(bodies)

    def ask(i):
        together[i] = server.ok(COMPLETIONS, bodies[i])["choices"]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, body in enumerate(bodies):
        assert server.ok(COMPLETIONS, body)["choices"] == together[i], i


def is_idle(state):
    return state["running"] == 0 and state["waiting"] == 0


def cut(request, reset):
    if reset:
        request.reset()
    else:
        request.close()


def check_times(name, times):
    """The limit holds where a processor is to be had: what others run on this machine stretches it."""
    busy = max(1, os.getloadavg()[0] / os.cpu_count())
    milliseconds = [round(seconds * 1000) for seconds in times if seconds is not None]
    print(f"   {name}: {milliseconds} ms, {busy:.1f} threads a processor")
    assert None not in times, f"{name}: some never ended"
    assert statistics.median(times) < HANG_UP_S * busy and max(times) < 5 * HANG_UP_S * busy, f"{name}: {milliseconds} ms"


@test
def a_client_that_goes_in_decode_ends_its_request(server):
    times = []
    for turn in range(8):
        stream, reset = bool(turn & 1), bool(turn & 2)
        before = server.health()["generated_tokens"]
        request = server.open_stream(COMPLETIONS, completion(fresh(), max_tokens=4000, ignore_eos=True, stream=stream))
        assert server.wait_until(lambda state: state["generated_tokens"] > before + 2, 60) is not None
        cut(request, reset)
        times.append(server.wait_until(is_idle, 5))
    check_times("decode", times)


@test
def a_client_that_goes_in_prefill_ends_its_request(server):
    times = []
    for turn in range(8):
        stream, reset = bool(turn & 1), bool(turn & 2)
        before = server.health()
        prompt = [random.Random(turn * 31 + counter).randrange(1000, 40000) for _ in range(8000)]
        request = server.open_stream(COMPLETIONS, {"prompt": prompt, "max_tokens": 5, "stream": stream, "ignore_eos": True})
        assert server.wait_until(lambda state: state["computed_tokens"] > before["computed_tokens"], 60) is not None
        cut(request, reset)
        times.append(server.wait_until(is_idle, 5))
        after = server.health()
        assert after["generated_tokens"] == before["generated_tokens"], "a token was drawn"
        assert after["computed_tokens"] - before["computed_tokens"] < 8000, "the prompt was computed to its end"
    check_times("prefill", times)


@test
def the_first_client_that_goes_in_prefill_ends_its_request(_):
    times = []
    for turn in range(4):
        with Server("--kv-memory", "512MiB") as server:
            prompt = [random.Random(turn).randrange(1000, 40000) for _ in range(8000)]
            request = server.open_stream(COMPLETIONS, {"prompt": prompt, "max_tokens": 5, "ignore_eos": True})
            started = "running" if turn & 1 else "computed_tokens"
            assert server.wait_until(lambda state: state[started] > 0, 60) is not None
            request.close()
            times.append(server.wait_until(is_idle, 5))
    check_times("first prefill", times)


@test
def clients_that_go_in_long_steps_in_a_row_end_their_requests(_):
    times = ([], [], [])
    with Server("--kv-memory", "512MiB", "--step-ms", "1500", "--prefill-chunk", "4096") as server:
        for turn in range(4):
            requests = []
            for one in range(len(times)):
                prompt = [random.Random(turn * 31 + one + 1000).randrange(1000, 40000) for _ in range(7000)]
                ask = {"prompt": prompt, "max_tokens": 5, "ignore_eos": True}
                before = server.health()
                requests.append(server.open_stream(COMPLETIONS, ask))
                if one == 0:  # it has the steps to itself: the others wait behind it
                    moved = lambda state: state["computed_tokens"] > before["computed_tokens"]
                    assert server.wait_until(moved, 60) is not None
            for place, request in enumerate(requests):
                left = len(requests) - place - 1
                cut(request, bool(turn & 1))
                times[place].append(server.wait_until(lambda state: state["running"] + state["waiting"] == left, 10))
    for place, measured in enumerate(times):
        check_times(f"long step {place}", measured)


@test
def clients_that_keep_going_do_not_keep_another_from_its_reply(_):
    with Server("--kv-memory", "512MiB", "--step-ms", "400", "--prefill-chunk", "2048") as server:
        draw = random.Random(7)
        ask = lambda: {"prompt": [draw.randrange(1000, 40000) for _ in range(4000)], "max_tokens": 5}
        stays = server.open_stream(COMPLETIONS, completion("a", max_tokens=6000, ignore_eos=True, stream=True))
        stays.read_until(b'"text"')
        requests = [server.open_stream(COMPLETIONS, ask()) for _ in range(4)]
        before = server.health()["generated_tokens"]
        gets_on = lambda: server.health()["generated_tokens"] > before + 2
        leavers, until = 0, time.monotonic() + 60
        while (leavers < 30 or not gets_on()) and time.monotonic() < until:
            leavers += 1  # the oldest is in the step, and another one is there for the next
            requests.append(server.open_stream(COMPLETIONS, ask()))
            assert server.wait_until(lambda state: state["running"] == 2, 10) is not None
            cut(requests.pop(0), False)
        assert gets_on(), "it does not get on"
        for request in [stays, *requests]:
            request.close()
        assert server.wait_until(is_idle, 10) is not None


@test
def a_client_that_goes_in_the_queue_ends_its_request(_):
    with Server("--max-sequences", "1", "--kv-memory", "256MiB") as server:
        long = server.open_stream(COMPLETIONS, completion("a", max_tokens=8000, ignore_eos=True, stream=True))
        long.read_until(b'"text"')
        times = []
        for turn in range(8):
            request = server.open_stream(COMPLETIONS, completion("b", stream=bool(turn & 1)))
            assert server.wait_until(lambda state: state["waiting"] == 1, 20) is not None
            cut(request, bool(turn & 2))
            times.append(server.wait_until(lambda state: state["waiting"] == 0, 5))
        check_times("queue", times)
        assert server.health()["running"] == 1
        long.close()
        assert server.wait_until(is_idle, 5) is not None


@test
def a_full_queue_is_a_429(_):
    with Server("--max-sequences", "1", "--max-queue", "1", "--kv-memory", "256MiB") as server:
        requests = [server.open_stream(COMPLETIONS, completion("a", max_tokens=4000, ignore_eos=True, stream=True))]
        requests[0].read_until(b'"text"')
        requests.append(server.open_stream(COMPLETIONS, completion("b", stream=True)))
        assert server.wait_until(lambda state: state["waiting"] == 1, 20) is not None
        reply = server.post(COMPLETIONS, completion("c"))
        assert reply.status == 429 and reply.headers["retry-after"] == "1", (reply.status, reply.body)
        assert _harness.check_error(reply)["type"] == "rate_limit_error"
        for request in requests:
            request.close()
        assert server.wait_until(is_idle, 5) is not None


@test
def streams_cut_at_random_leave_nothing(server):
    draw = random.Random(3)
    requests = []
    for i in range(40):
        body = completion(fresh() + "x " * draw.randrange(200), max_tokens=draw.randrange(1, 200), stream=bool(i % 3))
        requests.append(server.open_stream(COMPLETIONS, body))
        if len(requests) > 12:
            cut(requests.pop(draw.randrange(len(requests))), draw.random() < 0.5)
    for request in requests:
        cut(request, draw.random() < 0.5)
    assert server.wait_until(is_idle, 10) is not None
    state = server.health()["pages"]
    assert state["leased"] == 0 and state["free"] + state["cached"] == state["total"], state
    assert server.ok(CHAT, chat("Still there?"))["choices"]


@test
def stopping_tells_the_clients_and_ends_well(_):
    server = Server("--kv-memory", "256MiB")
    stream = server.open_stream(COMPLETIONS, completion("a", max_tokens=4000, ignore_eos=True, stream=True))
    stream.read_until(b'"text"')
    whole = server.open_stream(COMPLETIONS, completion("a", max_tokens=4000, ignore_eos=True))
    assert server.wait_until(lambda state: state["running"] == 2, 20) is not None
    assert server.stop() == 0, server.read_log()[-2000:]
    assert b'"code":"draining"' in stream.read_all() and stream.bytes.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), stream.bytes[-300:]
    assert whole.read_all().startswith(b"HTTP/1.1 503"), whole.bytes[:300]


if __name__ == "__main__":
    with Server("--kv-memory", "512MiB", "--max-sequences", "16") as main_server:
        sys.exit(_harness.run(main_server))
