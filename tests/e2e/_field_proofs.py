"""How the effect of each implemented field shows: one function for a field and an endpoint, or for several that belong
together. Beds are what they ask with."""
import json
import os
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import _harness
from _fields import BOTH, CHAT, COMPLETIONS, MESSAGES
from _harness import Server

TOKENS = 6
CLIENTS = 12
# Shows what a template sees; not longer than the model's own.
TEMPLATE = ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}effort={{ reasoning_effort }} "
            "thinking={{ enable_thinking }} mood={{ mood }}\n{% if add_generation_prompt %}assistant: {% endif %}")


class Bed:
    """A server and what most proofs ask of it. Requests share a connection."""

    def __init__(self, server):
        self.server = server
        self.connection = server.connect()

    def post(self, path, body):
        return self.server.post(path, body, connection=self.connection)

    def post_all(self, requests):
        """(row, body, reply) of each (row, path, body), asked by several clients at once."""
        local = threading.local()

        def ask(request):
            row, path, body = request
            local.connection = getattr(local, "connection", None) or self.server.connect()
            return row, body, self.server.post(path, body, connection=local.connection)

        with ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(ask, requests))

    def refuse_all(self, requests):
        """(row, body, error) of requests that must all be a 400 which names the row's field."""
        for row, body, reply in self.post_all(requests):
            assert reply.status == 400, f"{row.name} of {json.dumps(body)[:300]}: {reply.status} {reply.body[:200]}"
            error = _harness.check_error(reply)
            assert error["param"].split("[")[0].split(".")[0] == row.name, (row.name, body, error)
            assert row.name in error["message"] and error["type"] == "invalid_request_error", error
            yield row, body, error

    def short(self, path, row=None, value=None, **more):
        """A request of two tokens, with a value for a row's field."""
        fields = {**row.extra, row.name: value} if row else {}
        return self.base(path, **{"max_tokens": 2, **fields, **more})

    def base(self, path, **more):
        prompt = {"messages": MESSAGES} if path == CHAT else {"prompt": "The sea is"}
        return {**prompt, "temperature": 0, "max_tokens": TOKENS, **more}

    def ask(self, path, **more):
        """The reply to the usual request with these fields (None takes one away)."""
        body = {key: value for key, value in self.base(path, **more).items() if value is not None}
        reply = self.post(path, body)
        assert reply.status == 200, f"{path} {body}: {reply.status} {reply.body[:300]}"
        return reply.json()

    def frames(self, path, **more):
        reply = self.post(path, self.base(path, stream=True, **more))
        assert reply.status == 200, reply.body[:300]
        assert reply.headers["content-type"].startswith("text/event-stream"), reply.headers
        return _harness.read_frames(reply.body)

    def text(self, path, **more):
        return texts(self.ask(path, **more))[0]

    def ids(self, path, **more):
        return self.ask(path, return_token_ids=True, **more)["choices"][0]["token_ids"]

    def refusal(self, path, body):
        reply = self.post(path, body)
        assert reply.status == 400, f"{path} {json.dumps(body)[:300]}: {reply.status} {reply.body[:200]}"
        return _harness.check_error(reply)


def texts(body):
    return [choice["message"]["content"] if "message" in choice else choice["text"] for choice in body["choices"]]


def seen(reply):
    """What a client sees of a reply, without what differs from one to the next."""
    if reply.headers["content-type"].startswith("text/event-stream"):
        bodies = _harness.read_frames(reply.body)
    else:
        bodies = [reply.json()]
    for body in bodies:
        for key in ("id", "created", "usage"):
            if key != "usage" or body.get("usage"):
                body.pop(key, None)
    return bodies


# ---- proofs ----


PROOFS = {}


def proof(*names, paths=BOTH):
    """Decorates what shows the effect of fields: function(bed, path). It fails when there is none."""

    def add(function):
        for name in names:
            for path in paths:
                assert (name, path) not in PROOFS, name
                PROOFS[name, path] = function
        return function

    return add


@proof("model")
def model_is_echoed(bed, path):
    assert bed.ask(path, model="some name")["model"] == "some name"
    assert bed.ask(path)["model"] == bed.server.get("/v1/models").json()["data"][0]["id"]


@proof("messages", paths=(CHAT,))
def messages_decide(bed, path):
    other = [{"role": "user", "content": "What is two and two?"}]
    assert bed.text(path) != bed.text(path, messages=other)


@proof("prompt", paths=(COMPLETIONS,))
def prompt_decides(bed, path):
    ids = bed.server.ok("/tokenize", {"prompt": "The sea is"})["tokens"]
    assert bed.text(path) != bed.text(path, prompt="Two and two are")
    assert bed.text(path) == bed.text(path, prompt=ids)
    assert texts(bed.ask(path, prompt=["The sea is"] * 2)) == [bed.text(path)] * 2


@proof("stream")
def stream_comes_in_frames(bed, path):
    frames = bed.frames(path)
    assert len(frames) > 2 and frames[0]["object"].endswith(("chunk", "text_completion")), frames[0]


@proof("stream_options")
def stream_options_bring_the_usage(bed, path):
    frames = bed.frames(path, stream_options={"include_usage": True})
    assert frames[-1]["choices"] == [] and frames[-1]["usage"]["completion_tokens"] > 0, frames[-1]
    assert all(frame["usage"] is None for frame in frames[:-1])
    assert not any("usage" in frame for frame in bed.frames(path, stream_options={"include_usage": False}))
    assert bed.refusal(path, bed.base(path, stream_options={}))["param"] == "stream_options"


@proof("max_tokens")
def max_tokens_end_it(bed, path):
    for count in (0, 1, 4):
        body = bed.ask(path, max_tokens=count, ignore_eos=True)
        assert body["usage"]["completion_tokens"] == count and body["choices"][0]["finish_reason"] == "length", body
        assert (texts(body) == [""]) == (count == 0) and body["usage"]["prompt_tokens"] > 0, body
    frames = bed.frames(path, max_tokens=0, stream_options={"include_usage": True})
    assert frames[-1]["usage"]["completion_tokens"] == 0 and frames[-1]["usage"]["prompt_tokens"] > 0, frames


@proof("max_completion_tokens")
def max_completion_tokens_win(bed, path):
    for first, second in (("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")):
        values = {"max_tokens": 2, "max_completion_tokens": 5}
        body = {key: value for key, value in bed.base(path, ignore_eos=True).items() if key != "max_tokens"}
        reply = bed.post(path, {**body, first: values[first], second: values[second]})
        assert reply.json()["usage"]["completion_tokens"] == 5, reply.body


@proof("n")
def n_gives_choices(bed, path):
    body = bed.ask(path, n=3, temperature=1.5, seed=3)
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2] and len(set(texts(body))) > 1, body
    assert body["usage"]["prompt_tokens"] == bed.ask(path)["usage"]["prompt_tokens"]
    assert len(bed.ask(path, n=2, max_tokens=0)["choices"]) == 2


@proof("best_of", paths=(COMPLETIONS,))
def best_of_is_n_or_nothing(bed, path):
    assert len(bed.ask(path, n=2, best_of=2)["choices"]) == 2
    for n, best_of in ((1, 2), (2, 3), (2, 1)):
        assert bed.refusal(path, bed.base(path, n=n, best_of=best_of))["param"] == "best_of"


@proof("temperature")
def temperature_draws(bed, path):
    greedy = bed.text(path)
    assert bed.text(path) == greedy == bed.text(path, seed=9) == bed.text(path, temperature=-0.0)
    assert len({bed.text(path, temperature=2, seed=seed) for seed in range(3)}) == 3


@proof("top_p", "top_k", "min_p")
def narrow_draws_are_greedy(bed, path):
    greedy = bed.text(path)
    assert bed.text(path, temperature=2, seed=1) != greedy
    for field, value in (("top_p", 1e-9), ("top_k", 1), ("min_p", 1)):
        assert bed.text(path, temperature=2, seed=1, **{field: value}) == greedy, field
    for field, value in (("top_p", 1), ("top_k", 0), ("top_k", -1), ("min_p", 0)):
        assert bed.text(path, temperature=2, seed=1, **{field: value}) == bed.text(path, temperature=2, seed=1), field


@proof("repetition_penalty", "presence_penalty", "frequency_penalty")
def penalties_break_repetition(bed, path):
    words = "one one one one one one one one one one one one one"
    prompt = {"messages": [{"role": "user", "content": "Say: " + words}]} if path == CHAT else {"prompt": words}
    plain = bed.text(path, **prompt, max_tokens=16)
    for field, value in (("repetition_penalty", 2), ("presence_penalty", 2), ("frequency_penalty", 2)):
        assert bed.text(path, **prompt, max_tokens=16, **{field: value}) != plain, (field, plain)


@proof("seed")
def seed_decides(bed, path):
    draw = lambda seed: bed.text(path, temperature=1.5, seed=seed)
    assert draw(5) == draw(5) == draw(5.0) and len({draw(seed) for seed in (5, 6, -1, 2**63 - 1)}) > 2


@proof("stop", "include_stop_str_in_output")
def stop_cuts(bed, path):
    whole = bed.text(path, max_tokens=16)
    stop = whole[4:9]
    cut = whole[: whole.index(stop)]
    for value in (stop, ["zzzzz", stop]):
        body = bed.ask(path, max_tokens=16, stop=value)
        assert texts(body) == [cut] and body["choices"][0]["finish_reason"] == "stop", (whole, stop, body)
    assert bed.text(path, max_tokens=16, stop=stop, include_stop_str_in_output=True) == cut + stop


@proof("stop_token_ids", "min_tokens")
def stop_ids_end_it(bed, path):
    ids = bed.ids(path)
    at = next(i for i in range(1, len(ids)) if ids[i] not in ids[:i])
    body = bed.ask(path, stop_token_ids=[ids[at]])
    assert body["usage"]["completion_tokens"] <= at + 1 and body["choices"][0]["finish_reason"] == "stop", body
    body = bed.ask(path, stop_token_ids=[ids[at]], min_tokens=TOKENS)
    assert body["usage"]["completion_tokens"] == TOKENS, body


@proof("logit_bias")
def bias_moves(bed, path):
    first = bed.ids(path)[0]
    assert bed.ids(path, logit_bias={str(first): -100})[0] != first
    assert bed.ids(path, logit_bias={"500": 100}, ignore_eos=True) == [500] * TOKENS


@proof("ignore_eos", "skip_special_tokens")
def eos_can_be_passed(bed, path):
    eos = bed.server.get("/tokenizer_info").json()["eos_token"]
    eos_id = next(i for i in range(64) if bed.server.ok("/detokenize", {"tokens": [i]})["prompt"] == eos)
    bias = {"logit_bias": {str(eos_id): 100}}
    body = bed.ask(path, **bias)
    assert texts(body) == [""] and body["choices"][0]["finish_reason"] == "stop", body
    body = bed.ask(path, **bias, ignore_eos=True)
    assert texts(body) == [""] and body["usage"]["completion_tokens"] == TOKENS, body
    assert bed.text(path, **bias, ignore_eos=True, skip_special_tokens=False) == eos * TOKENS


@proof("return_token_ids")
def token_ids_come(bed, path):
    body = bed.ask(path, return_token_ids=True)
    assert len(body["choices"][0]["token_ids"]) == body["usage"]["completion_tokens"], body
    assert "token_ids" not in bed.ask(path)["choices"][0]


@proof("echo", paths=(COMPLETIONS,))
def the_prompt_comes_back(bed, path):
    assert bed.text(path, echo=True) == "The sea is" + bed.text(path)


@proof("cache_salt")
def salts_keep_caches_apart(bed, path):
    def cached(**more):
        return bed.ask(path, **more)["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached(cache_salt=f"{path} 1") == 0
    assert cached(cache_salt=f"{path} 1") > 0
    assert cached(cache_salt=f"{path} 2") == 0


@proof("service_tier")
def service_tier_is_echoed(bed, path):
    assert bed.ask(path, service_tier="auto")["service_tier"] == "default" and "service_tier" not in bed.ask(path)


@proof("logprobs", "top_logprobs", paths=(CHAT,))
def chat_logprobs_come(bed, path):
    body = bed.ask(path, logprobs=True, top_logprobs=3)
    content = body["choices"][0]["logprobs"]["content"]
    assert len(content) == body["usage"]["completion_tokens"] and all(len(one["top_logprobs"]) == 3 for one in content)
    assert all(one["logprob"] <= 0 and bytes(one["bytes"]).decode(errors="replace") == one["token"] for one in content)
    content = bed.ask(path, logprobs=True)["choices"][0]["logprobs"]["content"]
    assert all(one["top_logprobs"] == [] for one in content) and bed.ask(path)["choices"][0]["logprobs"] is None
    assert bed.refusal(path, bed.base(path, top_logprobs=3))["param"] == "top_logprobs"


@proof("logprobs", paths=(COMPLETIONS,))
def completion_logprobs_come(bed, path):
    body = bed.ask(path, logprobs=2)
    logprobs = body["choices"][0]["logprobs"]
    assert len(logprobs["tokens"]) == body["usage"]["completion_tokens"]
    assert "".join(logprobs["tokens"]) == texts(body)[0]
    assert all(len(top) >= 2 for top in logprobs["top_logprobs"]) and bed.ask(path)["choices"][0]["logprobs"] is None


@proof("add_generation_prompt", "continue_final_message", paths=(CHAT,))
def the_end_of_the_prompt_is_as_asked(bed, path):
    prompt = lambda **more: bed.ask(path, max_tokens=1, **more)["usage"]["prompt_tokens"]
    assert prompt(add_generation_prompt=False) < prompt()
    begun = {"messages": [*MESSAGES, {"role": "assistant", "content": "The sea is a"}]}
    assert prompt(**begun, continue_final_message=True) < prompt(**begun, add_generation_prompt=False) < prompt(**begun)
    assert bed.text(path, **begun, continue_final_message=True) != bed.text(path, **begun)
    both = bed.base(path, **begun, continue_final_message=True, add_generation_prompt=True)
    assert bed.refusal(path, both)["param"] == "continue_final_message"


# ---- proofs that need a model file with another template and a BOS of its own ----


class OtherModel:
    """The model with TEMPLATE for its own, and add_bos_token on. Made when it is first needed."""

    bed = None
    folder = None

    @classmethod
    def get(cls):
        if cls.bed is None:
            cls.folder = tempfile.mkdtemp(prefix="incipit-fields-")
            path = os.path.join(cls.folder, "model.gguf")
            shutil.copyfile(_harness.model(), path)
            with open(path, "r+b") as file:
                cls.patch(file)
            os.environ["INCIPIT_MODEL"], before = path, os.environ.get("INCIPIT_MODEL")
            try:
                cls.bed = Bed(Server("--kv-memory", "256MiB", "--strict-model"))
            finally:
                os.environ.pop("INCIPIT_MODEL")
                if before is not None:
                    os.environ["INCIPIT_MODEL"] = before
        return cls.bed

    @staticmethod
    def patch(file):
        head = file.read(4 << 20)
        key = b"tokenizer.chat_template\x08\0\0\0"
        at = head.index(key) + len(key)
        size = int.from_bytes(head[at : at + 8], "little")
        comment = size - len(TEMPLATE) - len("{##}")
        assert comment >= 0, "the model's own template is shorter"
        file.seek(at + 8)
        file.write((TEMPLATE + "{#" + " " * comment + "#}").encode())
        key = b"tokenizer.ggml.add_bos_token\x07\0\0\0"
        file.seek(head.index(key) + len(key))
        file.write(b"\1")

    @classmethod
    def end(cls):
        if cls.folder is not None:
            shutil.rmtree(cls.folder)


def rendered(**more):
    bed = OtherModel.get()
    ids = bed.ids(CHAT, **more) and bed.ask(CHAT, return_token_ids=True, **more)["prompt_token_ids"]
    return bed.server.ok("/detokenize", {"tokens": ids})["prompt"]


@proof("reasoning_effort", "chat_template_kwargs", paths=(CHAT,))
def the_template_sees_its_variables(_, __):
    assert "effort= thinking= mood=\n" in rendered()
    assert "effort=high thinking= mood=\n" in rendered(reasoning_effort="high")
    assert "effort=none thinking=False mood=\n" in rendered(reasoning_effort="none")
    assert "thinking=True mood=1.0\n" in rendered(chat_template_kwargs={"enable_thinking": True, "mood": 1.0})


@proof("add_special_tokens", paths=(COMPLETIONS,))
def special_tokens_are_added(_, path):
    bed = OtherModel.get()
    ask = lambda add: bed.ask(path, return_token_ids=True, add_special_tokens=add)["prompt_token_ids"]
    prompts = [ask(True), ask(False)]
    assert prompts[0][1:] == prompts[1] and len(prompts[0]) == len(prompts[1]) + 1, prompts
