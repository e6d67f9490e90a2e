"""Reads the text exposition format of Prometheus (0.0.4) more strictly than Prometheus does."""
import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


class Family:
    def __init__(self, name, kind, help_text):
        self.name = name
        self.kind = kind
        self.help = help_text
        self.samples = {}  # (suffix, labels as a sorted tuple of pairs) -> value


def read_labels(text):
    labels, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, text
        name, value, separator = match.groups()
        assert name not in labels, text
        labels[name] = re.sub(r'\\(.)', lambda m: {"n": "\n"}.get(m[1], m[1]), value)
        at = match.end()
        assert separator == "" or at < len(text), text
    return labels


def read_sample(family, line):
    match = SAMPLE.fullmatch(line)
    assert match, line
    name, labels, value = match.groups()
    suffix = name[len(family.name):]
    assert name.startswith(family.name) and suffix in SUFFIXES[family.kind], (family.name, line)
    key = suffix, tuple(sorted(read_labels(labels or "").items()))
    assert key not in family.samples, f"twice: {line}"
    number = float(value)
    assert math.isfinite(number), line
    family.samples[key] = number


def check_histogram(family):
    series = {}
    for (suffix, labels), value in family.samples.items():
        rest = tuple(pair for pair in labels if pair[0] != "le")
        kinds = series.setdefault(rest, {"_bucket": []})
        if suffix == "_bucket":
            kinds["_bucket"].append((float(dict(labels)["le"]), value))
        else:
            kinds[suffix] = value
    for rest, kinds in series.items():
        buckets = kinds["_bucket"]
        assert buckets == sorted(buckets) and len({bound for bound, _ in buckets}) == len(buckets), (family.name, rest)
        assert [count for _, count in buckets] == sorted(count for _, count in buckets), (family.name, buckets)
        assert buckets[-1] == (math.inf, kinds["_count"]), (family.name, buckets[-1], kinds)
        assert kinds["_count"] > 0 or kinds["_sum"] == 0, family.name


def parse(text):
    """Families by name; an AssertionError says what is wrong."""
    families, family = {}, None
    assert text.endswith("\n") and "\r" not in text
    lines = iter(text.split("\n")[:-1])
    for line in lines:
        if not line.startswith("#"):
            read_sample(family, line)
            continue
        match = re.fullmatch(rf"# HELP ({NAME}) (.+)", line)
        assert match, line
        name, help_text = match.groups()
        match = re.fullmatch(rf"# TYPE {re.escape(name)} (counter|gauge|histogram)", next(lines))
        assert match and name not in families, line
        family = families[name] = Family(name, match[1], help_text)
    for family in families.values():
        assert (family.kind == "counter") == family.name.endswith("_total"), family.name
        if family.kind == "histogram":
            check_histogram(family)
        else:
            assert family.kind == "gauge" or all(value >= 0 for value in family.samples.values()), family.name
    return families


class Numbers:
    """One look at /metrics."""

    def __init__(self, server, **more):
        reply = server.get("/metrics", **more)
        assert reply.status == 200, reply.body
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8", reply.headers
        self.families = parse(reply.body.decode())

    def __call__(self, name, **labels):
        """The value of a series; 0 if there is none. `name` may end in _count or _sum of a histogram."""
        for suffix in ("", "_count", "_sum"):
            family = self.families.get(name.removesuffix(suffix))
            if name.endswith(suffix) and family is not None:
                return family.samples.get((suffix, tuple(sorted(labels.items()))), 0)
        raise AssertionError(f"there is no {name}")
