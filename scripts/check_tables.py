#!/usr/bin/env python3
"""Every member of a family has its row: a file that nothing lists is never tested or reached."""

import os
import re

import check_tree

# folder, the table in it: each public constant `const struct X name` defined in the folder must be named in the table.
FAMILIES = (
    ("model/arch", "model/arch/arch_table.c"),
    ("model/weights", "model/weights/format_table.c"),
    ("cache/tier", "cache/tier/tier_table.c"),
    ("api/output", "api/output/output_table.c"),
)
# header, the table of its functions, which of them are members.
FUNCTIONS = (
    ("api/endpoint/endpoints.h", "api/endpoint/endpoint_table.c", re.compile(r"\b(\w+)\(")),
    ("server/command/command.h", "server/command/command_table.c", re.compile(r"^int (\w+)\(const struct options \*", re.M)),
)
MEMBER = re.compile(r"^const struct \w+ (\w+)\s*=\s*\{", re.M)
OPERATIONS = re.compile(r"\(\*(\w+)\)\s*\(")
# Not arithmetic: nothing to compare with a twin.
HOUSEKEEPING = {
    "open", "close", "variant", "memory", "matrix_free", "floats_take", "floats_give", "upload", "download",
    "activations_take", "activations_give", "wait", "kv_poison", "matrix_pack",
}

problems = []


def exists(path):
    return os.path.isfile(os.path.join(check_tree.ROOT, path))


def check_family(folder, table):
    members = []
    for path in check_tree.files((folder,), (".c",)):
        if path != table:
            members += [(path, name) for name in MEMBER.findall(check_tree.code_only(check_tree.read(path)))]
    if members and not exists(table):
        problems.append(f"{table} does not exist")
        return
    listed = check_tree.code_only(check_tree.read(table)) if members else ""
    for path, name in members:
        if not re.search(rf"&\s*{name}\b", listed):
            problems.append(f"{path}: {name} has no row in {table}")


def check_functions(header, table, pattern):
    listed = check_tree.code_only(check_tree.read(table))
    names = pattern.findall(check_tree.code_only(check_tree.read(header)))
    if not names:
        problems.append(f"{header} declares no member of {table}")
    for name in names:
        if not re.search(rf"[{{,]\s*{name}\b", listed):
            problems.append(f"{header}: {name} has no row in {table}")


def check_operations():
    """Each operation of struct kernel_ops is in the CPU table and has a case that compares it with its twin."""
    header = check_tree.code_only(check_tree.read("kernels/kernels.h"))
    body = re.search(r"struct kernel_ops \{(.*?)\n\};", header, re.S).group(1)
    backends = "".join(check_tree.read(p) for p in check_tree.files(("kernels/cpu",), (".c",)))
    cases = "".join(check_tree.read(p) for p in check_tree.files(("tests/kernels", "tests/unit/kernels"), (".c", ".h")))
    for name in OPERATIONS.findall(body):
        if backends and not re.search(rf"\.{name}\s*=", backends):
            problems.append(f"kernels/cpu: the operation {name} is not in the table")
        if cases and name not in HOUSEKEEPING and not re.search(rf"\b{name}\b", cases):
            problems.append(f"tests/kernels: the operation {name} has no case")


for family in FAMILIES:
    check_family(*family)
for functions in FUNCTIONS:
    check_functions(*functions)
if exists("kernels/kernels.h"):
    check_operations()
check_tree.finish(problems)
