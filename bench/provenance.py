"""What every result names: the machine and the commit."""
import os
import platform
import subprocess
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
