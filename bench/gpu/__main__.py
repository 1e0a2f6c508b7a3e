#!/usr/bin/env python3
"""Tests and measures ft on a machine with a GPU, in parts of some minutes each.

    python3 bench/gpu --part 1|2|3|4|5 [--ft FT] [--programs DIR] [--cuda-libs DIR] [--python PYTHON] [--name NAME] [--carry DIR] [--dry-run]
    python3 bench/gpu --compare OLD_FT [the same]

Part 1: is it right (op tests, goldens, training beside the CPU's, ZeRO and NCCL with two ranks on one GPU, compute-sanitizer);
part 2: how fast, beside what the card sustains and PyTorch + transformers + PEFT; part 3: every kind of work once, beside the CPU;
part 4: LoRA in FP8 beside bf16, in turns; part 5: one step over 262,144 tokens.
--compare: is this ft faster than another, in turns. It needs what `make gpu-kit` packs, this folder and Python's standard library;
PYTHON is one with torch, transformers and peft, without which nothing is measured beside ft. A step that fails is recorded and the next
one runs. Everything goes to bench/results/gpu_NAME_DATE, and to --carry DIR as two files, the summary and an archive. Ends with 1 when a
step failed. `--device cpu --tiny` tries the kit itself.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import correctness  # noqa: E402
import every_kind  # noqa: E402
import fp8  # noqa: E402
import long  # noqa: E402
import provenance  # noqa: E402
import speed  # noqa: E402
from clocks import Clocks  # noqa: E402
from kit import ROOT, Command, Runner, Step, last_line  # noqa: E402


def output_of(words):
    try:
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


class Context:
    """Where everything is."""

    def __init__(self, a):
        self.device, self.tiny, self.steps, self.dry, self.all = a.device, a.tiny, a.steps, a.dry_run, a.all
        self.ceilings, self.clocks = {}, None        # {"GB/s": of copies, "TFLOP/s": of the best product}, as they last
        self.ft = (a.ft or self.packed(a.work.resolve())).absolute()
        self.programs = (a.programs or ROOT / "build/dist/gpu-kit").absolute()
        self.python = a.python
        self.versions = "not asked" if a.dry_run or a.part not in (2, 4) else output_of([a.python, HERE / "peer.py", "versions"])
        self.no_peer = "" if self.versions else f"{a.python} has no torch, transformers and peft"
        self.libs = a.cuda_libs or self.libs_of_python()
        self.ft_words = [self.ft, *(["--cuda-libs", self.libs] if self.libs else [])]
        self.work = a.work.resolve()
        self.results = a.results.resolve()
        # What the test programs find libraries by; the packed ones first.
        folders = [str(p) for p in [self.ft.resolve().parent.parent / "lib/ft", *self.library_folders()] if p.exists()]
        self.environment = {"LD_LIBRARY_PATH": ":".join(folders + [p for p in [os.environ.get("LD_LIBRARY_PATH")] if p])} if folders else {}

    def packed(self, work):
        """What make dist made: the folder, or the archive, which is all that needs to be carried."""
        folder = next(iter(sorted(ROOT.glob("build/dist/ft-*/bin/ft"))), None)
        archive = next(iter(sorted(ROOT.glob("build/dist/ft-*.tar.xz"))), None)
        if folder or not archive:
            return folder or ROOT / "build/release/ft"
        if not self.dry:
            work.mkdir(parents=True, exist_ok=True)
            subprocess.run(["tar", "-xJf", str(archive), "-C", str(work)], check=True)
        return work / archive.name.removesuffix(".tar.xz") / "bin/ft"

    def libs_of_python(self):
        """The folder of NVIDIA's libraries that came with torch."""
        if self.device != "cuda":
            return None
        found = output_of([self.python, "-c", "import nvidia, os; print(list(nvidia.__path__)[0])"])
        return Path(found) if found and list(Path(found).rglob("libcublasLt.so.13")) else None

    def library_folders(self):
        return sorted({f.parent for name in ("libcublasLt.so.13", "libnccl.so.2", "libcudnn.so.9") for f in self.libs.rglob(name)}) if self.libs else []

    def call(self, words):
        """Something that must be there for a step."""
        done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, words))}: exit code {done.returncode}: {last_line(done.stdout)}")

    def find(self, program):
        return shutil.which(program) or next((str(p) for p in Path("/opt/nvidia").glob(f"**/bin/{program}")), "") if self.device == "cuda" else ""

    @staticmethod
    def write_tokens(path, vocabulary, rows, length, target=0):
        """Text-like: few words are frequent, so that there is something to learn. A target is its source's beginning."""
        draw = random.Random(0)
        with open(path, "w") as f:
            for _ in range(rows):
                ids = [max(3, min(vocabulary - 1, int(vocabulary * draw.random() ** 4))) for _ in range(length)]
                f.write(json.dumps({"input_ids": ids, **({"labels": ids[:target]} if target else {})}) + "\n")


def first_line(text):
    return text.splitlines()[0] if text else ""


def machine_steps(c):
    commands = [[c.ft, "--version"], [*c.ft_words, "doctor"]]
    if c.device == "cuda":
        commands.insert(0, ["nvidia-smi"])
    for words in commands:
        yield Step(f"machine: {Path(str(words[0])).name} {words[-1] if len(words) > 1 else ''}".strip(), [[Command(words)]], 30,
                   codes=(0, 2, 10) if words[-1] == "doctor" else (0,))


def head(c, a):
    """Of the summary: what was run, with what, on what."""
    return [f"# ft on {a.name}, {title(a)}", "", f"    python3 bench/gpu {' '.join(sys.argv[1:])}", "",
            f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC, {first_line(output_of([c.ft, '--version']))}, commit {commit()}; PyTorch: {c.versions or 'none'}",
            output_of(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader"]) or provenance.machine(), ""]


def summary(c, head_lines, runner, table):
    lines = [*head_lines, "| step | | s | |", "|---|---|---|---|"]
    for r in runner.rows:
        lines.append(f"| {r['step']} | {r['state']} | {r['seconds']} | {first_line(r['text']).replace('|', '/')} |")
    if table:
        lines += ["", speed.markdown(c, table)]
    for r in runner.rows:
        if "\n" in r["text"]:
            lines += ["", f"## {r['step']}", "", "```", r["text"], "```"]
    return "\n".join(lines) + "\n"


def title(a):
    return f"part {a.part}" if a.part else f"beside {a.compare}"


def write(c, a, name, text):
    """The summary; with --carry also an archive of everything."""
    (c.results / f"{name}.md").write_text(text)
    if not a.carry:
        return
    a.carry.mkdir(parents=True, exist_ok=True)
    (a.carry / f"{name}.md").write_text(text)
    with tarfile.open(a.carry / f"{name}.tar.gz", "w:gz") as archive:
        archive.add(c.results, arcname=c.results.name)


def commit():
    try:
        return provenance.commit() or "?"
    except OSError:
        return "?"


def main():
    p = argparse.ArgumentParser(prog="python3 bench/gpu", description=__doc__.split("\n")[0])
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--part", type=int, choices=[1, 2, 3, 4, 5])
    what.add_argument("--compare", type=Path, metavar="OLD_FT")
    p.add_argument("--ft", type=Path, help="default: the folder or archive of build/dist, else build/release/ft")
    p.add_argument("--programs", type=Path, help="where gpu_test, gpu_golden_test and bench_gpu are; default: build/dist/gpu-kit")
    p.add_argument("--cuda-libs", type=Path, help="NVIDIA's libraries; default: those that PYTHON's torch has, else the system's")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--name", default="h200", help="of the machine, for the folder of results")
    p.add_argument("--results", type=Path)
    p.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "ft-gpu-kit", help="models, data and runs; kept")
    p.add_argument("--budget", type=float, default=570, help="seconds for all steps")
    p.add_argument("--steps", type=int, help="of a run that is measured")
    p.add_argument("--all", action="store_true", help="part 2: everything that ceilings.py knows")
    p.add_argument("--carry", type=Path, metavar="DIR", help="also put the summary and an archive of the results there")
    p.add_argument("--only", default="", help="only steps whose name contains this, or one of several, as a|b")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--dry-run", action="store_true", help="print the commands")
    a = p.parse_args()
    a.results = a.results or ROOT / "bench/results" / f"gpu_{a.name}_{datetime.now(timezone.utc):%Y-%m-%d}"
    c = Context(a)
    runner, table = Runner(c.results, a.budget, a.dry_run), []
    if not a.dry_run:
        (c.results / "logs").mkdir(parents=True, exist_ok=True)
        c.work.mkdir(parents=True, exist_ok=True)
    name = f"part{a.part}" if a.part else "compared"
    if a.compare:
        work = speed.compare_steps(c, a.compare.absolute(), table)
    else:
        work = {2: speed.steps, 4: fp8.steps}[a.part](c, table) if a.part in (2, 4) else {1: correctness.steps, 3: every_kind.steps, 5: long.steps}[a.part](c)
    if not a.dry_run and a.device == "cuda":
        c.clocks = Clocks(c.results / f"{name}_smi.csv")
    head_lines = [] if a.dry_run else head(c, a)
    for step in [*machine_steps(c), *work]:
        together = [s for s in (step if isinstance(step, list) else [step]) if any(part in s.name for part in a.only.split("|"))]
        if together:
            runner.run_together(together, len(os.sched_getaffinity(0)))
            if not a.dry_run:
                write(c, a, name, summary(c, head_lines, runner, table))
    if a.dry_run:
        return 0
    if c.clocks:
        c.clocks.stop()
    write(c, a, name, summary(c, head_lines, runner, table))
    print(f"results   {c.results}")
    return 1 if any(r["state"] == "failed" for r in runner.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
