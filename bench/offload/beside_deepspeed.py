#!/usr/bin/env python3
"""LoRA (r 16, all linears) of a random model of 1.26 B parameters in bf16, 512 tokens a step, recomputing: ft beside DeepSpeed's
ZeRO stage 3 on the same cores, with everything in memory and with the parameters in files.

    beside_deepspeed.py FT --python PYTHON --data FOLDER [--steps 4] [--result FILE]

PYTHON: an interpreter as peer.py needs. FOLDER is on the disk that is measured and gets the model (2.5 GB) and the files. Peak
resident memory is that of the process. The first step does not count. Where DeepSpeed fails its last words are shown.
Standard library only.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import run
from run import Result


def beside(a, folder, files):
    """Peak resident bytes, and what DeepSpeed's side prints, or why it ended."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        words = [a.python, Path(__file__).with_name("peer.py"), folder / "model", folder / "512.jsonl", files, str(a.steps)]
        child = subprocess.Popen(words, stdout=out, stderr=errors)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        for file in (out, errors):
            file.seek(0)
        if child.returncode:
            said = [line for line in errors.read().decode().splitlines() if "Error" in line] or [f"exit code {child.returncode}"]
            return used.ru_maxrss * 1024, said[-1]
        return used.ru_maxrss * 1024, json.loads(out.read().decode().splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("ft", type=Path)
    p.add_argument("--python", type=Path, required=True)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--steps", type=int, default=4, help="of each run; the first does not count")
    p.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = p.parse_args()
    a.ft, a.data = a.ft.resolve(), a.data.resolve()
    a.shape, a.full, a.lengths = "1b", True, [512]  # `full`: the model in bf16
    result = Result(f"bench/offload/beside_deepspeed.py FT --python PYTHON --data FOLDER --steps {a.steps}")
    folder = run.make(a)
    file = run.run_json(argparse.Namespace(**{**vars(a), "full": False}), folder, 512)
    versions = {}
    for where, settings, files in (("in memory", [], False), ("parameters in files", run.homes(folder, "offload_param"), True)):
        peak, seconds, _ = run.train(a, folder, 512, ["data.shuffle=false", *settings])
        losses = [json.loads(line).get("loss") for line in open(folder / "out-512" / "log.jsonl")]
        with tempfile.TemporaryDirectory(dir=folder) as nvme:
            peer_peak, peer = beside(a, folder, nvme if files else "")
        line = f"{where:20} ft {seconds:6.2f} s a step, {peak / 2**30:5.2f} GiB   DeepSpeed "
        if isinstance(peer, str):
            result.say(line + f"fails: {peer}")
            continue
        versions = peer
        peer_seconds = statistics.median(peer["seconds"][1:])
        result.say(line + f"{peer_seconds:6.2f} s, {peer_peak / 2**30:5.2f} GiB   {peer_seconds / seconds:.2f} x its speed "
                   f"at {peak / peer_peak:.2f} of its memory; first losses {losses[0]:.4f}, {peer['losses'][0]:.4f}")
    result.say(f"peer      DeepSpeed {versions.get('deepspeed')}, torch {versions.get('torch')}")
    result.write(a.result)


if __name__ == "__main__":
    main()
