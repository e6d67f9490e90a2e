"""/v1/completions over HTTP: several prompts in one request, echoed prompts, and KV that salts keep apart."""

import sys

from _harness import Server, run, test

COMPLETIONS = "/v1/completions"
WORDS = "The quick brown fox jumps over the lazy dog and runs through the quiet forest until night falls. " * 4
PROMPTS = ["Once upon a time", "The capital of France is", "One, two, three, four,"]


def ask(prompt, **fields):
    return {"prompt": prompt, "max_tokens": 3, "temperature": 0, **fields}


def frames(server, body):
    return server.stream(COMPLETIONS, {**body, "stream_options": {"include_usage": True}})


def joined(parts):
    """What a stream's frames say together, in the whole body's shape: text and the lists of each choice."""
    choices = {}
    for frame in parts:
        for part in frame["choices"]:
            choice = choices.setdefault(part["index"], {"text": "", "logprobs": None, "finish_reason": None})
            choice["text"] += part["text"]
            choice["finish_reason"] = part["finish_reason"] or choice["finish_reason"]
            if part["logprobs"]:
                lists = choice["logprobs"] = choice["logprobs"] or {key: [] for key in part["logprobs"]}
                for key, values in part["logprobs"].items():
                    lists[key] += values
    return [choices[index] for index in sorted(choices)]


def same(whole, parts):
    assert len(whole) == len(parts)
    for one, other in zip(whole, parts):
        assert {key: one[key] for key in other} == other, (one, other)


# ---- salts ----


@test
def equal_salts_share_and_others_do_not(server):
    def cached(**fields):
        return server.ok(COMPLETIONS, ask(WORDS, **fields))["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached(cache_salt="a") == 0
    assert cached(cache_salt="a") > 50
    assert cached(cache_salt="b") == 0
    assert cached() == 0
    assert cached(cache_salt=None) > 50
    for salt in ("", 5, "x" * 2000):
        assert server.error(COMPLETIONS, ask(WORDS, cache_salt=salt))["param"] == "cache_salt"


# ---- several prompts ----


@test
def a_batch_answers_each_prompt_as_if_alone(server):
    for fields in ({}, {"n": 2, "temperature": 1, "seed": 7}):
        count = fields.get("n", 1)
        alone = [server.ok(COMPLETIONS, ask(prompt, **fields)) for prompt in PROMPTS]
        batch = server.ok(COMPLETIONS, ask(PROMPTS, **fields))
        assert [choice["index"] for choice in batch["choices"]] == list(range(len(PROMPTS) * count))
        texts = [choice["text"] for reply in alone for choice in reply["choices"]]
        assert [choice["text"] for choice in batch["choices"]] == texts
        for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert batch["usage"][key] == sum(reply["usage"][key] for reply in alone), key
        parts = frames(server, ask(PROMPTS, **fields))
        same(batch["choices"], joined(parts))
        usage = parts[-1]["usage"]
        assert usage["prompt_tokens"] == batch["usage"]["prompt_tokens"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - len(PROMPTS)


@test
def more_prompts_than_run_at_once_are_answered_in_order(server):
    prompts = [[1 + i, 100 + i, 200 + i] for i in range(40)]
    batch = server.ok(COMPLETIONS, ask(prompts, max_tokens=2, return_token_ids=True))
    assert [choice["index"] for choice in batch["choices"]] == list(range(40))
    assert [choice["prompt_token_ids"] for choice in batch["choices"]] == prompts
    assert all(len(choice["token_ids"]) <= 2 for choice in batch["choices"])
    assert batch["usage"]["prompt_tokens"] == 120


@test
def batches_that_cannot_be_are_refused(server):
    for prompt in ([], [[]], ["a", [1]], [[1], "a"], ["a", 1], [1, "a"], [[1], []], ["a"] * 1025, [None], ""):
        error = server.error(COMPLETIONS, ask(prompt))
        assert error["param"].startswith("prompt"), (str(prompt)[:40], error)
    error = server.error(COMPLETIONS, ask(["a", "b " * 100000]))
    assert error["code"] == "context_length_exceeded" and error["param"] == "prompt", error


# ---- echo ----


@test
def an_echo_begins_with_the_prompt(server):
    one, several = PROMPTS[0], PROMPTS[:2]
    for prompt, asked in ((one, ({}, {"logprobs": 2}, {"max_tokens": 0})), (several, ({"n": 2}, {"logprobs": 0, "n": 2}))):
        prompts = prompt if isinstance(prompt, list) else [prompt]
        for fields in asked:
            count = fields.get("n", 1)
            plain = server.ok(COMPLETIONS, ask(prompt, **{**fields, "logprobs": None}))
            echo = server.ok(COMPLETIONS, ask(prompt, echo=True, **fields))
            for index, choice in enumerate(echo["choices"]):
                assert choice["text"] == prompts[index // count] + plain["choices"][index]["text"], (fields, choice)
            assert echo["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]
            same(echo["choices"], joined(frames(server, ask(prompt, echo=True, **fields))))


@test
def a_harness_finds_the_scores_of_a_prompt(server):
    """As lm-eval asks: token_logprobs[context:-1] belong to what follows the context."""
    text = PROMPTS[1] + server.ok(COMPLETIONS, ask(PROMPTS[1], max_tokens=6))["choices"][0]["text"]
    ids = server.ok("/tokenize", {"prompt": text})["tokens"]
    context = len(server.ok("/tokenize", {"prompt": PROMPTS[1]})["tokens"])
    body = {"prompt": [ids, ids[:3]], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True}
    reply = server.ok(COMPLETIONS, body)
    assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert reply["usage"]["prompt_tokens"] == len(ids) + 3
    for choice, prompt in zip(reply["choices"], body["prompt"]):
        lists = choice["logprobs"]
        assert {len(values) for values in lists.values()} == {len(prompt) + 1}
        assert lists["token_logprobs"][0] is None and lists["top_logprobs"][0] is None
        assert all(value <= 0 for value in lists["token_logprobs"][1:])
        for token, offset in zip(lists["tokens"], lists["text_offset"]):
            assert choice["text"][offset:].startswith(token), (token, offset)
    lists = reply["choices"][0]["logprobs"]
    for place in range(context, len(ids)):  # each was drawn greedily: it is the most probable one, with the same bits
        assert max(lists["top_logprobs"][place].values()) == lists["token_logprobs"][place]
        drawn = server.ok(COMPLETIONS, ask(ids[:place], max_tokens=1, logprobs=1))["choices"][0]["logprobs"]
        assert drawn["token_logprobs"] == [lists["token_logprobs"][place]], place
        assert drawn["top_logprobs"] == [lists["top_logprobs"][place]], place


def main():
    with Server("--max-sequences", "6") as server:
        return run(server)


if __name__ == "__main__":
    sys.exit(main())
