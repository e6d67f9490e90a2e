"""What the real server holds after hostile bodies: their memory goes back to the system."""
import json
import re
import sys

import _harness
from _harness import Server, test

LEFT_MIB = 160


def resident_mib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) // 1024


def is_sanitized(server):
    """A sanitizer keeps freed memory on purpose."""
    with open(f"/proc/{server.process.pid}/maps", encoding="utf-8") as maps:
        return re.search("lib[at]san", maps.read()) is not None


@test
def large_bodies_leave_no_memory_behind(_):
    messages = json.dumps({"messages": [{"role": "user", "content": "hello"}] * 100000})
    values = '{"prompt":"a","max_tokens":1,"metadata":[' + ",".join(["1"] * 1000000) + "]}"
    with Server("--kv-memory", "16MiB", "--context", "512") as server:
        before = resident_mib(server)
        for _turn in range(3):
            assert server.ok("/tokenize", messages)["count"] > 100000
            assert server.error("/v1/completions", values)["param"] == "metadata"  # refused when all was read
        left = resident_mib(server) - before
        print(f"   {before} MiB at first, {left} MiB more in the end")
        assert is_sanitized(server) or left < LEFT_MIB, f"{left} MiB stay behind"


if __name__ == "__main__":
    sys.exit(_harness.run(None))
