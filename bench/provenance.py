"""What every result says: first the command, the date, the commit and the machine, then what was measured."""
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    flags = next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "")
    isa = " ".join(f for f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if f" {f}" in flags)
    memory = int(open("/proc/meminfo").readline().split()[1]) / 2**20
    return f"{cpu} ({isa}), {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores, {memory:.0f} GiB"


def commit():
    git = lambda *c: subprocess.run(["git", "-C", str(Path(__file__).parent), *c], capture_output=True, text=True).stdout.strip()
    return git("rev-parse", "--short", "HEAD") + (" with changes" if git("status", "--porcelain", "-uno") else "")


class Result:
    """Lines that are printed at once, and written to a file in the end."""

    def __init__(self, command):
        self.lines = []
        self.say(f"command   {command}")
        self.say(f"date      {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC, load before {os.getloadavg()[0]:.1f}")
        self.say(f"commit    {commit()}")
        self.say(f"machine   {machine()}")

    def say(self, line):
        print(line, flush=True)
        self.lines.append(line)

    def write(self, path):
        if path:
            path.write_text("\n".join(self.lines) + "\n")
