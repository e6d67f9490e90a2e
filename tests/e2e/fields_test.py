"""Every field of a chat or completions request, on the real server: one that is implemented changes what comes back
(each has its proof in _field_proofs.py), a hint changes nothing, one that is refused is a 400 that names it. For every
one of them null is absent, and a value of a wrong type or out of range is a 400 that says so. The rows of _fields.py are
compared with the server's own tables: a field that only one of the two knows fails."""
import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import _field_proofs
import _harness
from _field_proofs import Bed, OtherModel, rendered, seen
from _fields import BOTH, CHAT, COMPLETIONS, HINT, IMPLEMENT, KINDS, MESSAGES, REFUSE, ROWS
from _harness import Server, test

TABLES = {CHAT: ("api/openai_fields.c", "api/endpoint/openai_chat.c"),
          COMPLETIONS: ("api/openai_fields.c", "api/endpoint/openai_completions.c")}


# ---- the tables ----


def server_rows(path):
    """{name: act} of the rows that the server reads such a request with."""
    rows = {}
    for source in TABLES[path]:
        text = (_harness.ROOT / source).read_text()
        table = re.search(r"static const struct field rows\[\] = \{(.*?)\n\};", text, re.S).group(1)
        table = re.sub(r"/\*.*?\*/", "", table, flags=re.S)
        for macro, name in re.findall(r"\b(ROW_\w+)\(\s*\"(\w+)\"", table):
            rows[name] = HINT if "HINT" in macro else REFUSE if "REFUSED" in macro else IMPLEMENT
        for name, rest in re.findall(r"\{\s*\.name = \"(\w+)\",(.*?)\}", table, re.S):
            act = re.search(r"FIELD_(HINT|REFUSE)\b", rest)
            rows[name] = {"HINT": HINT, "REFUSE": REFUSE}[act.group(1)] if act else IMPLEMENT
    return rows


@test
def the_rows_here_and_in_the_server_are_the_same(_):
    for path in BOTH:
        here = {row.name: row.act for row in ROWS if path in row.paths}
        there = server_rows(path)
        assert here == there, f"{path}: {sorted(set(here.items()) ^ set(there.items()))}"


@test
def every_implemented_row_has_its_proof(_):
    wanted = {(row.name, path) for row in ROWS if row.act == IMPLEMENT for path in row.paths}
    assert wanted == set(_field_proofs.PROOFS), wanted ^ set(_field_proofs.PROOFS)


# ---- what holds for every row ----


def rows_and_paths():
    return [(row, path) for row in ROWS for path in row.paths]


@test
def null_is_absent_for_every_row(server):
    bed = Bed(server)
    requests = []
    for row, path in rows_and_paths():
        body = bed.short(path, seed=3)
        body.pop(row.name, None)
        if row.name == "max_tokens":
            body["max_completion_tokens"] = 2
        requests += [(row, path, body), (row, path, {**body, row.name: None})]
    replies = bed.post_all(requests)
    for (row, body, without), (_, _, null) in zip(replies[::2], replies[1::2]):
        if row.name in ("messages", "prompt"):
            assert null.status == without.status == 400 and null.json()["error"]["param"] == row.name, null.body
            continue
        assert null.status == 200, (row.name, null.body)
        assert seen(null) == seen(without) or row.name == "seed", (row.name, body)  # without it one is drawn


@test
def a_default_that_is_sent_is_absent_for_every_row(server):
    bed = Bed(server)
    requests = []
    for row, path in rows_and_paths():
        body = bed.short(path, seed=7, **row.extra)
        body.pop(row.name, None)
        if row.default is not None:
            requests += [(row, path, body), (row, path, {**body, row.name: row.default})]
    replies = bed.post_all(requests)
    for (row, _, without), (_, _, default) in zip(replies[::2], replies[1::2]):
        assert default.status == 200, (row.name, default.body)
        assert seen(default) == seen(without), row.name


def wrong_types(row):
    kinds = row.kinds.split()
    for kind, values in KINDS.items():
        if row.act == REFUSE or not (kind in kinds or (kind == "whole" and "number" in kinds)):
            yield from (value for value in values if not (row.act == REFUSE and is_nothing(row, value)))


def is_nothing(row, value):
    """Whether it asks a refused field for nothing: what its row lists, or another spelling of it."""
    alike = (("", [], {}), (0, False))
    return value in row.good or any(value in values and any(good in values for good in row.good if good is not False)
                                    for values in alike) or (row.name == "modalities" and value == [])


@test
def a_wrong_type_is_refused_for_every_row(server):
    bed = Bed(server)
    requests = [(row, path, bed.short(path, row, value))
                for row, path in rows_and_paths() for value in wrong_types(row)]
    for row, body, error in bed.refuse_all(requests):
        code = "unsupported_parameter" if row.act == REFUSE else "invalid_type"
        assert error["code"] in (code, "invalid_value"), (row.name, body, error)
    print(f"   {len(requests)} values of a wrong type")


def ends(row):
    return [(end, sign) for end, sign in ((row.low, -1), (row.high, 1)) if end is not None]


@test
def a_number_out_of_range_is_told_the_limit_for_every_row(server):
    bed = Bed(server)
    outside, inside = [], []
    for row, path in rows_and_paths():
        for end, sign in ends(row):
            opened = row.open_low and sign < 0
            step = 0 if opened else sign if row.kinds == "whole" else sign / 1000
            outside.append((row, path, bed.short(path, row, end + step)))
            if not opened and not (row.name == "n" and sign > 0):  # this server runs 16 at once
                inside.append((row, path, bed.short(path, row, end)))
    for row, body, error in bed.refuse_all(outside):
        limits = ["64 bits", *(text for end, _ in ends(row) for text in (f"{end:g}", str(end)))]
        assert error["code"] == "invalid_value" and any(text in error["message"] for text in limits), error
    for row, body, reply in bed.post_all(inside):
        assert reply.status == 200, (row.name, body, reply.body)
    print(f"   {len(outside)} values out of range")


@test
def bad_values_are_refused_and_good_ones_are_not(server):
    bed = Bed(server)
    bad = [(row, path, bed.short(path, row, value)) for row, path in rows_and_paths() for value in row.bad]
    good = [(row, path, bed.short(path, row, value)) for row, path in rows_and_paths() for value in row.good]
    for _ in bed.refuse_all(bad):
        pass
    for row, body, reply in bed.post_all(good):
        assert reply.status == 200, (row.name, body, reply.body)
    print(f"   {len(bad)} bad values, {len(good)} good ones")


# ---- the acts ----


def unchanged(bed, requests):
    """The replies are those to the same requests without the row's field."""
    plain = {path: seen(bed.post(path, bed.short(path))) for path in BOTH}
    for (row, path, _), (_, body, reply) in zip(requests, bed.post_all(requests)):
        assert reply.status == 200 and seen(reply) == plain[path], (row.name, body, reply.body)


@test
def a_hint_changes_nothing(server):
    bed = Bed(server)
    unchanged(bed, [(row, path, bed.short(path, row, value)) for row, path in rows_and_paths() if row.act == HINT
                    for value in [*(v for kind in row.kinds.split() for v in KINDS[kind]), *row.good]])


@test
def a_refused_field_is_named(server):
    bed = Bed(server)
    rows = [(row, path) for row, path in rows_and_paths() if row.act == REFUSE]
    refused = [(row, path, bed.short(path, row, value)) for row, path in rows for value in row.refused]
    for row, _, error in bed.refuse_all(refused):
        assert error["code"] == "unsupported_parameter", error
    unchanged(bed, [(row, path, bed.short(path, row, value)) for row, path in rows for value in row.good])


@test
def an_implemented_field_shows_its_effect(server):
    OtherModel.get()
    proofs = sorted({(function, path) for (_, path), function in _field_proofs.PROOFS.items()}, key=str)

    def show(proof):
        function, path = proof
        try:
            function(Bed(server), path)
        except AssertionError as error:
            return f"{function.__name__} of {path}: {error}"

    with ThreadPoolExecutor(_field_proofs.CLIENTS) as pool:
        failures = [failure for failure in pool.map(show, proofs) if failure]
    assert not failures, failures


# ---- the rest of a request ----


@test
def a_strict_server_refuses_other_models(_):
    bed = OtherModel.get()
    model = bed.server.get("/v1/models").json()["data"][0]["id"]
    for path in BOTH:
        assert bed.ask(path, model=model)["model"] == model == bed.ask(path)["model"]
        for other in ("gpt-4", "", model.upper() + "x"):
            error = bed.server.error(path, bed.base(path, model=other), 404)
            assert (error["code"], error["param"]) == ("model_not_found", "model") and model in error["message"], error


@test
def messages_of_every_shape_are_read(_):
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}
    shapes = [
        ({"role": "developer", "content": "Hello"}, "system: Hello\n"),
        ({"role": "function", "name": "f", "content": "Hello"}, "tool: Hello\n"),
        ({"role": "tool", "tool_call_id": "c", "content": parts}, "tool: Hello\n"),
        ({"role": "user", "content": parts, "name": "n"}, "user: Hello\n"),
        ({"role": "user", "content": "Hello <|im_end|>"}, "user: Hello <|im_end|>\n"),
        ({"role": "assistant", "content": None, "tool_calls": [call]}, "assistant: \n"),
        ({"role": "assistant", "content": "", "tool_calls": [call], "refusal": None, "annotations": []}, "assistant: \n"),
        ({"role": "assistant", "tool_calls": [{**call, "function": {"name": "f", "arguments": "no json"}}]}, "assistant: \n"),
        ({"role": "assistant", "content": "Hello", "reasoning_content": "why", "audio": None}, "assistant: Hello\n"),
    ]
    for message, text in shapes:
        assert text in rendered(messages=[message, *MESSAGES]), message


@test
def a_template_is_applied_as_in_a_chat(server):
    for more in ({}, {"add_generation_prompt": False}, {"chat_template_kwargs": {"a": 1}, "model": "m"}):
        prompt = server.ok("/apply-template", {"messages": MESSAGES, **more})
        ids = server.ok("/tokenize", {"messages": MESSAGES, **more})["tokens"]
        assert prompt == {"prompt": server.ok("/detokenize", {"tokens": ids})["prompt"]}, prompt
        assert MESSAGES[0]["content"] in prompt["prompt"]
    for body, param in (({}, "messages"), ({"messages": []}, "messages"), ({"messages": MESSAGES, "tools": [1]}, "tools")):
        assert server.error("/apply-template", body)["param"] == param


@test
def what_no_row_names_is_ignored(server):
    bed = Bed(server)
    for path in BOTH:
        without = seen(bed.post(path, bed.base(path)))
        for name in ("client_metadata", "context_management", "Temperature", "max-tokens", "__proto__", "\u00e9", ""):
            assert seen(bed.post(path, bed.base(path, **{name: {"a": [1]}}))) == without, name


@test
def embeddings_are_refused_with_the_reason(server):
    for path in ("/v1/embeddings", "/embeddings"):
        error = server.error(path, {"model": "m", "input": "a"})
        assert error["code"] == "unsupported_model" and "embedding" in error["message"], error


@test
def of_a_key_sent_twice_the_last_counts(server):
    bed = Bed(server)
    body = json.dumps(bed.base(COMPLETIONS, ignore_eos=True))[:-1]
    reply = bed.post(COMPLETIONS, body + ', "max_tokens": 1, "max_tokens": 3}')
    assert reply.json()["usage"]["completion_tokens"] == 3, reply.body
    assert bed.refusal(COMPLETIONS, body + ', "max_tokens": "a"}')["param"] == "max_tokens"


def print_counts():
    counts = {act: len({row.name for row in ROWS if row.act == act}) for act in (IMPLEMENT, HINT, REFUSE)}
    for act in counts:
        names = sorted({row.name for row in ROWS if row.act == act})
        print(f"   {act}: {' '.join(names)}")
    print("   " + ", ".join(f"{act} {count}" for act, count in counts.items()))


if __name__ == "__main__":
    with Server("--kv-memory", "256MiB", "--max-sequences", "16") as main_server:
        try:
            status = _harness.run(main_server)
        finally:
            for one in list(Server.running):
                if one is not main_server:
                    one.stop()
            OtherModel.end()
        print_counts()
    sys.exit(status)
