#!/usr/bin/env python3
"""Reports, and does not fail on, files past 600 lines and functions past 70: is there a second reason to change? Also lines
past 120 columns, which clang-format leaves in comments."""

import re

import check_tree

FILE_LINES = 600
FUNCTION_LINES = 70
COLUMNS = 120


def functions(text):
    """(name, first line, lines) of each function: a brace in column 0 to the next closing one there."""
    lines = check_tree.code_only(text).split("\n")
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            head = " ".join(lines[max(0, start - 8) : start])
            names = re.findall(r"(\w+)\s*\(", head.split("}")[-1].split(";")[-1])
            yield names[0] if names else "?", start + 1, number - start + 1
            start = None


for path in check_tree.files((*check_tree.FLOORS, "tests", "scripts"), (".c", ".h", ".inc", ".py", ".sh")):
    text = check_tree.read(path)
    count = text.count("\n")
    if count > FILE_LINES:
        print(f"    {path}: {count} lines")
    if path.endswith((".c", ".h", ".inc")):
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > COLUMNS:
                print(f"    {path}:{number}: {len(line)} columns")
        for name, line, length in functions(text):
            if length > FUNCTION_LINES:
                print(f"    {path}:{line}: {name} has {length} lines")
