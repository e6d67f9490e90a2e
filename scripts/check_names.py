#!/usr/bin/env python3
"""Names and words that must not occur: banned functions, left-overs, typedefs, a model's words, this machine's paths."""

import re

import check_tree

BANNED = re.compile(
    r"\b(strcpy|strcat|sprintf|vsprintf|strtok|atoi|atol|atof|gets|alloca|rand|srand|localtime|tmpnam)\s*\("
)
# Written in halves, so that this file does not contain what it looks for.
LEFT_OVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
MODEL_WORDS = re.compile(r"(?<![A-Za-z])im_" r"(start|end)")
MACHINE = re.compile(
    r"(?<![\w.])/(work|farm|tmp/bg|tmp/w)/|python" r"hosted|pypi\." r"org|npmjs\." r"org|deb\." r"debian", re.I
)
NATIVE = re.compile(r"-m(arch|tune)=" r"native")
GETENV = re.compile(r"\bgetenv\s*\(\s*(\"[^\"]*\"|[^)]*)")
GETENV_FREE = ('"HOME"', '"XDG_CACHE_HOME"')
CALLBACK = re.compile(r"typedef\s+[^;{}]*\b\w+\s*\(.*\)\s*;|typedef\s+[^;{}]*\(\s*\*\s*\w+\s*\)\s*\(.*\)\s*;", re.S)

problems = []


def report(path, text, offset, reason):
    problems.append(f"{path}:{text.count(chr(10), 0, offset) + 1}: {reason}")


def check_typedefs(path, code):
    for match in re.finditer(r"\btypedef\b[^;]*;", code):
        statement = match.group()
        if "__attribute__" in statement or "{" in statement or not CALLBACK.fullmatch(statement):
            report(path, code, match.start(), "a typedef that is not a callback")


def check_conditionals(path, code):
    """No #if inside a function (a body begins and ends with a brace in column 0): a variant is another file."""
    inside = False
    for number, line in enumerate(code.split("\n"), 1):
        if line.rstrip() in ("{", "}"):
            inside = line[0] == "{"
        elif inside and re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else)\b", line):
            problems.append(f"{path}:{number}: a preprocessor condition inside a function")


def check_c(path, text):
    code = check_tree.code_only(text)
    with_strings = check_tree.code_only(text, keep_strings=True)
    for match in BANNED.finditer(code):
        report(path, code, match.start(), f"{match.group(1)} is banned (kernels/base/banned.h)")
    check_typedefs(path, code)
    if path.startswith("tests/"):
        return
    if path.endswith(".c"):
        check_conditionals(path, code)
    for match in MODEL_WORDS.finditer(text):
        report(path, text, match.start(), "a word of one model's template")
    if not path.startswith("server/options"):
        for match in GETENV.finditer(with_strings):
            if match.group(1).strip() not in GETENV_FREE:
                report(path, with_strings, match.start(), "an environment variable outside the options table")


def main():
    folders = (*check_tree.FLOORS, "tests", "scripts", "configs", ".ci")
    kinds = (".c", ".h", ".inc", ".py", ".sh", ".js", ".html", ".yaml", ".yml", ".txt", ".mk", "run")
    paths = check_tree.files(folders, kinds) + ["Makefile", ".gitignore", ".clang-format"]
    for path in paths + (["README.md"] if "README.md" in check_tree.os.listdir(check_tree.ROOT) else []):
        text = check_tree.read(path)
        if path.endswith((".c", ".h", ".inc")):
            check_c(path, text)
        if path.endswith((".c", ".h", ".inc", ".py", ".sh", ".js")):
            for match in LEFT_OVER.finditer(text):
                report(path, text, match.start(), f"a left-over: {match.group()}")
        if not path.startswith(("tests/fuzz/", "tests/golden/")):
            for match in MACHINE.finditer(text):
                report(path, text, match.start(), f"a path of one machine or a registry's host: {match.group()}")
        for match in NATIVE.finditer(text):
            report(path, text, match.start(), "built for one machine only")
    check_tree.finish(problems)


main()
