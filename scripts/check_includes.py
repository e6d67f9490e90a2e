#!/usr/bin/env python3
"""The layer rule: arrows point down only, and another floor is entered by its public headers only."""

import os
import re

import check_tree

# What a floor may include from another one; its own headers are free.
ARROWS = {
    "kernels": (),
    "model": ("kernels",),
    "cache": ("kernels",),
    "api": ("model", "kernels"),
    "server": ("api", "model", "cache", "kernels"),
}
PUBLIC = {
    "kernels/kernels.h",
    "kernels/kv_layout.h",
    "model/model.h",
    "model/batch.h",
    "model/sampler.h",
    "model/text/chat.h",
    "model/text/chat_template.h",
    "model/text/tokenizer.h",
    "model/text/detokenizer.h",
    "model/text/reply_memory.h",
    "cache/cache.h",
    "cache/block_key.h",
    "api/api.h",
}
# api is pure: of the floors below it may know these only.
API_SEES = {"model/text/chat.h"}


def is_public(header):
    return header in PUBLIC or header.startswith("kernels/base/")


def reason_against(path, header):
    here, there = path.split("/")[0], header.split("/")[0]
    if path.startswith("kernels/base/") and not header.startswith("kernels/base/"):
        return "kernels/base stands on nothing"
    if here == there:
        return None
    if there not in ARROWS[here]:
        return f"{here} must not know {there}"
    if here == "api" and header not in API_SEES and not header.startswith("kernels/base/"):
        return "api may include model/text/chat.h and kernels/base only"
    if not is_public(header):
        return f"{header} is private to {there}"
    return None


def main():
    problems = []
    for path in check_tree.files((*check_tree.FLOORS, "tests"), (".c", ".h", ".inc")):
        text = check_tree.code_only(check_tree.read(path), keep_strings=True)
        for number, line in enumerate(text.split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not match:
                continue
            header = match.group(1)
            if not os.path.isfile(os.path.join(check_tree.ROOT, header)):
                problems.append(f"{path}:{number}: \"{header}\" does not start at the root")
                continue
            if path.startswith("tests/"):
                continue
            reason = "only tests may include tests" if header.startswith("tests/") else reason_against(path, header)
            if reason:
                problems.append(f"{path}:{number}: includes \"{header}\": {reason}")
    check_tree.finish(problems)


main()
