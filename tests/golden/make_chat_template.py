#!/usr/bin/env python3
"""What jinja2, in the environment that transformers sets up, makes of templates: the reference of our own engine.

    python3 tests/golden/make_chat_template.py --templates DIR --model FILE.gguf

writes chat_template_constructs.json (the snippets of chat_templates/*.txt with fixed variables) and
chat_template_corpus.json (small templates of published models x conversations). DIR is models/templates of llama.cpp
(MIT; its files come from the public repositories of the models named), FILE.gguf any file of SmolLM2-135M-Instruct.

With --all, nothing is written: every template in DIR is compared with the program given by --render, which reads lines
of JSON {"t": template, "bos": ..., "eos": ..., "cs": [conversation, ...]} and answers each with a line {"r": [text or
{"error": ...}, ...]} (or {"open_error": ...}).

Needs transformers, jinja2 and gguf. The recorded time is 1753531200 (2025-07-26 12:00:00 UTC), for snippets 0.
"""
import argparse
import copy
import datetime
import glob
import json
import os
import subprocess
import time

import jinja2
import transformers
import transformers.utils.chat_template_utils as templates

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = 1753531200
TEMPLATE_BYTES_MAX = 5100
CORPUS_BYTES_MAX = 150_000


class FixedTime(datetime.datetime):
    seconds = NOW

    @classmethod
    def now(cls, tz=None):
        return cls.utcfromtimestamp(cls.seconds)


os.environ["TZ"] = "UTC"
time.tzset()
templates.datetime = FixedTime

VARIABLES = {
    "messages": [
        {"role": "system", "content": " Hello <there> é "},
        {"role": "user", "content": "line1\nline2"},
        {"role": "assistant", "content": "Ünïcode 👍"},
    ],
    "data": {
        "int": 42, "float": 1.5, "big": 123456789012345678901234567890, "exp": 1e20, "neg": -7, "null": None, "yes": True,
        "list": [1, "two", 3.0, None, [], {}], "nested": {"a": {"b": "c'\"<&>é\n"}, "e": {}}, "one": 1.0, "huge": 1e300,
        "tiny": 1e-7,
    },
    "people": [
        {"name": "Ann", "age": 30, "tags": ["x", "y"]},
        {"name": "bob", "age": 25, "tags": [], "admin": True},
        {"name": "Cy", "age": 30, "tags": ["z"]},
    ],
    "outer": "OUT",
}

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the <b>weather</b> & more \"now\"",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city, e.g. Zürich 🏔"},
                "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                "days": {"type": "integer", "minimum": 1, "maximum": 1e20},
                "opts": {"type": "object", "properties": {}, "additionalProperties": False},
            },
            "required": ["city"],
        },
    },
}
NOOP = {"type": "function",
        "function": {"name": "noop", "description": "", "parameters": {"type": "object", "properties": {}}}}
ARGUMENTS = {"city": "Zürich", "x": 1e20, "y": 1.5, "t": True, "n": None,
             "nest": {"a": [1, 2, {"b": "c'\"<&>"}], "e": {}, "l": []}, "i": -7, "z": 1.0, "s": 1e-7,
             "q": 123456789012345678}


def call(name, arguments, **more):
    return {**more, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(role, content, **more):
    return {"role": role, "content": content, **more}


CONVERSATIONS = {
    "simple": {"messages": [said("user", "Hello")]},
    "system": {"messages": [said("system", " You are <helpful> & 'kind'.\n"), said("user", "Hi there\n"),
                            said("assistant", "Hey! "), said("user", "  What's 2+2?  ")]},
    "unicode": {"messages": [said("user", "Grüße 👩‍👩‍👧 \u2028 नमस्ते \u00a0"),
                             said("assistant", "\u3000日本語 ǅ ß\u0000\u007f"), said("user", "İstanbul ΑΣ \u200b")]},
    "tools": {"messages": [said("user", "weather?"),
                           said("assistant", None, tool_calls=[call("get_weather", ARGUMENTS, id="call_abc12")]),
                           said("tool", "{\"t\": 1.5}", tool_call_id="call_abc12", name="get_weather"),
                           said("assistant", "It is 1.5."), said("user", "thanks")], "tools": [WEATHER, NOOP]},
    "tools_text": {"messages": [said("system", "sys"), said("user", "weather?"),
                                said("assistant", "", tool_calls=[
                                    call("get_weather", json.dumps(ARGUMENTS), id="abcdefghi"),
                                    call("noop", "{}", id="123456789")]),
                                said("tool", "sunny", tool_call_id="abcdefghi"),
                                said("tool", "ok", tool_call_id="123456789")], "tools": [WEATHER, NOOP]},
    "tools_only": {"messages": [said("system", "Be brief."), said("user", "call one")], "tools": [WEATHER, NOOP]},
    "parts": {"messages": [said("system", [{"type": "text", "text": "sys part"}]),
                           said("user", [{"type": "text", "text": "look "}, {"type": "image"},
                                         {"type": "image_url", "image_url": {"url": "data:x"}},
                                         {"type": "text", "text": "at this"}]),
                           said("assistant", [{"type": "text", "text": "seen"}]), said("user", [])]},
    "reasoning": {"messages": [said("user", "q1"), said("assistant", "a1", reasoning_content="\nhmm\n"),
                               said("user", "q2"), said("assistant", "<think>\nthought\n</think>\n\nanswer"),
                               said("user", "q3 /no_think")], "kwargs": {"enable_thinking": False}},
    "reasoning_tool": {"messages": [said("user", "q1"),
                                    said("assistant", "", reasoning="r1", tool_calls=[call("noop", {})]),
                                    said("tool", "res"), said("assistant", "fin", thinking="deep"),
                                    said("user", "more")], "tools": [WEATHER], "kwargs": {"enable_thinking": True}},
    "null_content": {"messages": [said("user", None), said("assistant", None)]},
    "alternation": {"messages": [said("user", "a"), said("user", "b")]},
    "assistant_last": {"messages": [said("user", "a"), said("assistant", "partial answer ")]},
    "developer": {"messages": [said("developer", "dev"), said("user", "x"), said("assistant", "y", name="bob"),
                               said("ipython", "out"), said("custom", "z")],
                  "kwargs": {"date_string": "26 Jul 2024", "tools_in_user_message": False,
                             "builtin_tools": ["brave_search", "code_interpreter"]}},
    "number": {"messages": [said("user", 42), said("assistant", 1.5), said("user", True)]},
    "empty": {"messages": []},
}


def conversations():
    """Every conversation without and with the generation prompt, and some continued."""
    for name, conversation in CONVERSATIONS.items():
        yield {"name": name, **conversation, "agp": False}
        yield {"name": name + "+generation", **conversation, "agp": True}
    for name in ("assistant_last", "parts", "system", "reasoning_tool"):
        conversation = CONVERSATIONS[name]
        yield {"name": name + "+continue", **conversation, "cont": True}
        yield {"name": name + "-1+continue", **conversation, "messages": conversation["messages"][:-1], "cont": True}


def render_chat(template, conversation):
    """The text, or the exception. As apply_chat_template does it."""
    conversation = copy.deepcopy(conversation)
    variables = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "", "pad_token": ""}
    variables.update(conversation.get("kwargs") or {})
    FixedTime.seconds = NOW
    try:
        rendered, _ = templates.render_jinja_template(
            [templates._normalize_chat_messages(conversation["messages"])], tools=conversation.get("tools"),
            chat_template=template, add_generation_prompt=conversation.get("agp", False),
            continue_final_message=conversation.get("cont", False), **variables)
        return rendered[0]
    except Exception as error:
        return error


def render_snippet(template):
    FixedTime.seconds = 0
    try:
        compiled = templates._cached_compile_jinja_template(template)
        return compiled.render(**copy.deepcopy(VARIABLES), bos_token="<s>", eos_token="</s>", unk_token="", pad_token="")
    except Exception as error:
        return error


def digest(text):
    """FNV-1a, 64 bits, of the UTF-8."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def versions():
    return {"jinja2": jinja2.__version__, "transformers": transformers.__version__}


def write(name, value):
    path = os.path.join(HERE, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=0)
        file.write("\n")
    print(path, os.path.getsize(path), "bytes")


def make_constructs():
    cases = []
    for path in sorted(glob.glob(os.path.join(HERE, "chat_templates", "*.txt"))):
        with open(path, encoding="utf-8") as file:
            for source in file.read().split("\n---\n"):
                text = render_snippet(source)
                raises = isinstance(text, Exception)
                cases.append({"file": os.path.basename(path), "source": source,
                              **({"raises": type(text).__name__} if raises else {"text": text})})
    write("chat_template_constructs.json", {**versions(), "variables": VARIABLES, "cases": cases})


def smollm2(path):
    import gguf
    field = gguf.GGUFReader(path).fields["tokenizer.chat_template"]
    return bytes(field.parts[field.data[0]]).decode()


def read_templates(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
        with open(path, encoding="utf-8", newline="") as file:
            yield os.path.basename(path), file.read()


def make_corpus(folder, model):
    chosen = [("SmolLM2-135M-Instruct", smollm2(model))]
    total = 0
    for name, source in sorted(read_templates(folder), key=lambda item: len(item[1].encode())):
        size = len(source.encode())
        if size <= TEMPLATE_BYTES_MAX and total + size <= CORPUS_BYTES_MAX:
            chosen.append((name, source))
            total += size
    out = []
    for name, source in chosen:
        renders = []
        for conversation in conversations():
            text = render_chat(source, conversation)
            if isinstance(text, Exception):
                renders.append(None)
            elif name.startswith("SmolLM2"):
                renders.append(text)
            else:
                renders.append([len(text.encode()), digest(text)])
        out.append({"name": name, "source": source, "renders": renders})
    write("chat_template_corpus.json", {**versions(),
                                        "origin": "llama.cpp models/templates, and the GGUF file of SmolLM2",
                                        "conversations": list(conversations()), "templates": out})
    print(len(out), "templates,", total, "bytes of sources")


def compare_all(folder, program):
    chosen = list(read_templates(folder))
    cases = list(conversations())
    lines = "".join(json.dumps({"t": source, "bos": "<s>", "eos": "</s>", "cs": cases}) + "\n" for _, source in chosen)
    done = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    same = whole = 0
    for (name, source), answer in zip(chosen, answers, strict=True):
        wrong = 0
        for i, conversation in enumerate(cases):
            want = render_chat(source, conversation)
            got = answer["r"][i] if "r" in answer else None
            right = not isinstance(got, str) if isinstance(want, Exception) else got == want
            wrong += not right
        same += len(cases) - wrong
        whole += wrong == 0
        if wrong:
            print(name, wrong, "of", len(cases), "differ", answer.get("open_error", ""))
    print(f"{whole} of {len(chosen)} templates, {same} of {len(chosen) * len(cases)} renders identical")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--templates", required=True)
    parser.add_argument("--model")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--render")
    options = parser.parse_args()
    if options.all:
        compare_all(options.templates, options.render)
    else:
        make_constructs()
        make_corpus(options.templates, options.model)


main()
