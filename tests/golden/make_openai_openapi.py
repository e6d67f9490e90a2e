#!/usr/bin/env python3
"""Writes openai_openapi.json: the part of OpenAI's public API description that names the operations this server has,
with all that they reference. Left out: text for people (descriptions, examples, x-... members), which no check reads.

The source is openapi.json of github.com/openai/openai-openapi (MIT, Copyright OpenAI), here of commit
f85dbe223d40e1a31cba812ab2d755c7e98a92a3, whose info.version is 2.3.0. The origin is written into the result.

Usage: make_openai_openapi.py openapi.json COMMIT > openai_openapi.json
"""
import json
import sys

OPERATIONS = {"createChatCompletion", "createCompletion", "listModels", "retrieveModel"}
FOR_PEOPLE = {"description", "summary", "example", "examples", "externalDocs", "tags"}
NAMES_FOLLOW = {"properties", "schemas", "responses", "paths", "patternProperties", "$defs"}


def strip(node, names=False):
    """`names`: the keys are names that the API chose, so none of them is text for people."""
    if isinstance(node, list):
        return [strip(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = node if names else {k: v for k, v in node.items() if k not in FOR_PEOPLE and not k.startswith("x-")}
    return {key: strip(value, not names and key in NAMES_FOLLOW) for key, value in kept.items()}


def references(node):
    if isinstance(node, list):
        for item in node:
            yield from references(item)
    elif isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)


def is_kept(operation):
    return isinstance(operation, dict) and operation.get("operationId") in OPERATIONS


def trim(source, commit):
    paths = {}
    for path, methods in source["paths"].items():
        kept = {method: operation for method, operation in methods.items() if is_kept(operation)}
        if kept:
            paths[path] = strip(kept)
    components = {}
    left = set(references(paths))
    while left:
        reference = left.pop()
        kind, name = reference.removeprefix("#/components/").split("/")
        if name not in components.setdefault(kind, {}):
            components[kind][name] = strip(source["components"][kind][name])
            left.update(references(components[kind][name]))
    return {
        "openapi": source["openapi"],
        "info": {
            "title": source["info"]["title"],
            "version": source["info"]["version"],
            "license": source["info"]["license"],
            "x-origin": f"trimmed from openapi.json of github.com/openai/openai-openapi, commit {commit}",
        },
        "paths": paths,
        "components": {kind: dict(sorted(parts.items())) for kind, parts in sorted(components.items())},
    }


def required_responses_have_text(node):
    """OpenAPI wants a description in every response."""
    for operation in [o for methods in node["paths"].values() for o in methods.values()]:
        for response in operation["responses"].values():
            if "$ref" not in response:
                response["description"] = ""
    for response in node["components"].get("responses", {}).values():
        response["description"] = ""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trimmed = trim(json.load(file), sys.argv[2])
    required_responses_have_text(trimmed)
    json.dump(trimmed, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
