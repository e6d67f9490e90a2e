"""What the checks of the tree share: which files there are, and C text without its comments and strings."""

import os
import re

FLOORS = ("kernels", "model", "cache", "api", "server")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def files(folders, suffixes):
    """Paths from the root, sorted."""
    found = []
    for folder in folders:
        for at, names, members in os.walk(os.path.join(ROOT, folder)):
            names[:] = [n for n in names if not n.startswith(".") and n not in ("build", "__pycache__")]
            found += [os.path.relpath(os.path.join(at, m), ROOT) for m in members if m.endswith(suffixes)]
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_only(text, keep_strings=False):
    """Comments (and strings) become blanks; lines stay where they are."""

    def blank(match):
        token = match.group()
        if keep_strings and token[0] in "\"'":
            return token
        return "".join("\n" if c == "\n" else " " for c in token)

    return TOKEN.sub(blank, text)


def finish(problems):
    for problem in problems:
        print(problem)
    raise SystemExit(1 if problems else 0)
