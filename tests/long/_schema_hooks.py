"""Loaded by schemathesis (schema_test.py): what it does not check by itself, and bodies that this server implements.

Checks, on every reply: request ids; an error has its four members and no others; every frame of a stream is what the
description says a frame is, and the last one is [DONE].

With $SCHEMA_FIT the bodies, which the description allows, lose what Incipit refuses on purpose and what would take
long; what is left must be answered with a 200."""
import json
import os
import sys

import jsonschema_rs
import schemathesis

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from _harness import read_frames  # noqa: E402

FIT = bool(os.environ.get("SCHEMA_FIT"))
FRAMES = {"/chat/completions": "CreateChatCompletionStreamResponse", "/completions": "CreateCompletionResponse"}
REFUSED = ("audio", "function_call", "functions", "modalities", "moderation", "response_format", "suffix",
           "tool_choice", "tools", "web_search_options")
TEXT_MAX = 12
VOCABULARY = 49152


def frame_validators():
    """A completion's frame is a completion of which only the last has a finish_reason and usage; the description, which
    has both for chats, forgets it."""
    with open(os.environ["SCHEMA_FILE"], encoding="utf-8") as file:
        components = json.load(file)["components"]
    properties = components["schemas"]["CreateCompletionResponse"]["properties"]
    for where, name in ((properties, "usage"), (properties["choices"]["items"]["properties"], "finish_reason")):
        where[name] = {"anyOf": [where[name], {"type": "null"}]}
    return {path: jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{name}", "components": components})
            for path, name in FRAMES.items()}


VALIDATORS = frame_validators()


@schemathesis.check
def reply_form(_, response, case):
    content_type = response.headers.get("content-type", [""])[0]
    assert response.headers.get("x-request-id") == response.headers.get("request-id") is not None, response.headers
    if response.status_code >= 400:
        assert content_type == "application/json", content_type
        if case.method != "HEAD":
            error = response.json()["error"]
            assert sorted(error) == ["code", "message", "param", "type"] and error["message"], error
    elif content_type.startswith("text/event-stream"):
        frames = read_frames(response.content)
        assert frames, "no frame before [DONE]"
        for frame in frames:
            VALIDATORS[case.path].validate(frame)
    if FIT and isinstance(case.body, dict):
        assert response.status_code == 200, response.content
        assert content_type.startswith("text/event-stream") == bool(case.body.get("stream")), content_type


def without_nul(value):
    if isinstance(value, str):
        return value.replace("\0", "0")
    if isinstance(value, list):
        return [without_nul(item) for item in value]
    if isinstance(value, dict):
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    return value


def fit_text(value):
    """Short strings, anywhere below; parts of a kind that text models do not read become text."""
    if isinstance(value, str):
        return value[:TEXT_MAX]
    if isinstance(value, list):
        return [fit_text(item) for item in value[:3]]
    if isinstance(value, dict):
        if value.get("type") in ("image_url", "input_audio", "file"):
            return {"type": "text", "text": "a"}
        return {key: fit_text(item) for key, item in value.items()}
    return value


def fit_prompt(prompt):
    prompt = fit_text(prompt)
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], int):
        return [id_of(number) for number in prompt]
    if isinstance(prompt, list):
        return [fit_prompt(one) for one in prompt] or "a"
    return prompt or "a"


def id_of(number):
    return number % VOCABULARY


def fit_messages(messages):
    fitted = fit_text(messages)
    for message in fitted:
        for refused in ("function_call", "audio"):
            message.pop(refused, None)
        calls = [call for call in message.pop("tool_calls", None) or [] if call["type"] == "function"]
        if calls:
            message["tool_calls"] = calls
    return fitted


def fit(body):
    """What is left is to be a 200."""
    for field in REFUSED:
        body.pop(field, None)
    for field in ("max_tokens", "max_completion_tokens"):
        if body.get(field) is not None:
            body[field] = 1 + body[field] % 4
    if "max_tokens" not in body and "max_completion_tokens" not in body:
        body["max_tokens"] = 3
    if body.get("n") is not None:
        body["n"] = 1 + body["n"] % 3
    body.pop("best_of", None)
    if body.get("top_p") == 0:
        body["top_p"] = 0.5
    if body.get("logit_bias"):
        body["logit_bias"] = {str(id_of(i)): max(-100, min(v, 100)) for i, v in enumerate(body["logit_bias"].values())}
    if body.get("stop"):
        stops = body["stop"]
        body["stop"] = fit_text(stops) if isinstance(stops, str) else [text or "z" for text in fit_text(stops)]
    if body.get("stop") == "":
        del body["stop"]
    if body.get("stream_options") is not None:
        body["stream"] = True
    if body.get("top_logprobs") is not None:
        body["logprobs"] = True
    if "seed" in body and body["seed"] is not None:
        body["seed"] = int(body["seed"]) % 2**63
    if "messages" in body:
        body["messages"] = fit_messages(body["messages"])
    if "prompt" in body:
        body["prompt"] = fit_prompt(body["prompt"])


@schemathesis.hook
def before_call(_, case, __):
    """Whatever else is sent: a reply that nobody limits is as long as the context."""
    if not isinstance(case.body, dict):
        return
    if FIT:
        case.body = without_nul(case.body)
        fit(case.body)
    elif "max_completion_tokens" not in case.body:
        case.body.setdefault("max_tokens", 8)
