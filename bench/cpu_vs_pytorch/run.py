#!/usr/bin/env python3
"""Measures ft beside PyTorch + PEFT on one machine: the same weights, tokens, cores and settings, in turns, in one run.

    run.py FT --python PYTHON [--model llama|t5|moe|gemma2] [--data FOLDER] [--kinds bf16,f32] [--full adamw_8bit] [--rounds 3] [--steps 6]
           [--compile] [--settings "SECTION.SETTING=VALUE ..."] [--result FILE]

LoRA, or with --full full fine-tuning with this optimizer (adamw, adamw_8bit). PYTHON is an interpreter with torch, transformers,
peft and, for adamw_8bit, bitsandbytes (tests/golden/requirements.txt); FOLDER keeps the model (0.8 GB) between runs. Both programs
are watched from outside in the same way: a step is the time between two rows of their logs, memory is the kernel's peak resident
set, start is from the process's creation to its first row. In every round PyTorch's two bf16 forms both run, and ft is compared
with the faster. Ends with 1 when the losses differ. Standard library only.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from provenance import Result  # noqa: E402
SEQUENCES, SOURCE, TARGET = 4, 512, 128              # of a step; tokens; a LLaMA has no target of its own
# Largest relative difference of a step's loss that passes. In bf16 it is PyTorch's rounding: on T5 its two forms differ by 9e-3, and
# ft's losses are those of f32 to 4e-5. With --full PyTorch trains weights of bf16 and rounds every update, so there ft is held to its own
# run in f32, and PyTorch's distance from that is printed beside it: Adam's first steps follow the signs of gradients, of which rounding
# turns 2 in 1,000 in both programs.
LOSSES = {"bf16": 6e-3, "f32": 2e-5}
LOSSES_8_BIT = 2e-3                                  # bitsandbytes rounds states more coarsely on CPUs (docs/optimizers.md)


def watch(command, tokens, follow=None, cwd=None, log=None):
    """Runs a command. `follow` is the file its rows appear in (default: its stdout). Arrival times, rows, peak memory."""
    begun, rows, times, done = time.monotonic(), [], [], threading.Event()
    if follow:
        follow.unlink(missing_ok=True)               # rows of an earlier run
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL if follow else subprocess.PIPE, stderr=log)

    def take(line):
        rows.append(json.loads(line))
        times.append(time.monotonic() - begun)

    def tail():
        left, at = b"", 0
        while True:
            last = done.is_set()
            if follow.exists():
                with open(follow, "rb") as f:
                    f.seek(at)
                    new = f.read()
                at, left = at + len(new), left + new
                *lines, left = left.split(b"\n")
                for line in lines:
                    take(line)
            if last:
                return
            time.sleep(0.005)

    if follow:
        reader = threading.Thread(target=tail)
        reader.start()
    else:
        for line in process.stdout:
            take(line)
    _, status, usage = os.wait4(process.pid, 0)
    done.set()
    if follow:
        reader.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {process.returncode}; see {getattr(log, 'name', '')}")
    steps = [(r, t) for r, t in zip(rows, times) if "loss" in r and "step" in r]
    between = [b[1] - a[1] for a, b in zip(steps, steps[1:])]
    return {"losses": [r["loss"] for r, _ in steps], "seconds": [steps[0][1], *between], "tokens_per_second": tokens / statistics.median(between),
            "first_step_s": steps[0][1], "peak_gib": usage.ru_maxrss / 2**20, "rows": rows}


def ft_config(a, kind, out, lengths):
    data = a.data
    method = {"finetuning_type": "full"} if a.full else {"lora": {"adapter_name_or_path": str(data / "start")}}
    return {"model": {"model_name_or_path": str(data / f"model-{kind}")}, **method,
            "data": {"datasets": [{"path": str(data / "train.jsonl"), "type": "tokenized"}], "shuffle": False, **lengths},
            "training": {"output_dir": str(out), "per_device_train_batch_size": a.sequences, "gradient_accumulation_steps": 1, "max_steps": a.steps,
                         "optim": a.full or "adamw", "learning_rate": 1e-4, "lr_scheduler_type": "constant", "weight_decay": 0.0, "max_grad_norm": 1.0,
                         "bf16": kind == "bf16", "gradient_checkpointing": False},
            "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"}}


def told(ft, command, config, settings):
    """What ft says of a run, as JSON."""
    return json.loads(subprocess.run([ft, command, "--config", config, "--json", *settings], check=True, capture_output=True, text=True).stdout)


def tokens_of(a):
    return a.sequences * (SOURCE + (TARGET if a.model == "t5" else 0))


def run_ft(a, kind, number, log, more=()):
    work = Path(tempfile.mkdtemp(prefix="ft-bench-"))
    config = work / "run.json"
    lengths = {"max_source_length": SOURCE, "max_target_length": TARGET} if a.model == "t5" else {"max_seq_length": SOURCE}
    config.write_text(json.dumps(ft_config(a, kind, work / "out", lengths)))
    out = watch([str(a.ft), "train", "--config", str(config), *a.settings, *more], tokens_of(a), follow=work / "out" / "log.jsonl", log=log)
    if number == 0:  # what its products reach, of what they could at best at this moment
        flops, peak = (told(str(a.ft), c, str(config), a.settings)[k] for c, k in (("plan", "flops_per_token"), ("profile", "peak_flops")))
        out["share"] = out["tokens_per_second"] * flops / peak
    return out


def run_peer(a, kind, log):
    out = watch([a.python, str(HERE / "peer.py"), "run", str(a.data), kind, "--steps", str(a.steps), "--sequences", str(a.sequences),
                 *(["--compile"] if a.compile else []), *(["--full", a.full] if a.full else [])], tokens_of(a), log=log)
    out["versions"] = {k: out["rows"][-1][k] for k in ("torch", "transformers", "peft", "threads")}
    return out


def one(name, r):
    return f"{name:16} {r['tokens_per_second']:8.0f} tok/s  {r['peak_gib']:6.2f} GiB  first step {r['first_step_s']:5.1f} s  loss {r['losses'][0]:.6f} .. {r['losses'][-1]:.6f}"


def distance(losses, exact):
    """The largest relative one of a step."""
    return max(abs(x - y) / y for x, y in zip(losses, exact, strict=True))


def measure(a, kind, say, log):
    """Rounds of ft, then the peer's forms. True if ft's losses are near enough."""
    forms = ["bf16", "autocast"] if kind == "bf16" else ["f32"]
    ratios, good, median = {"speed": [], "memory": [], "start": []}, True, {}
    exact = run_ft(a, kind, None, log, ["training.bf16=false"])["losses"] if a.full and kind == "bf16" else None
    bound = LOSSES_8_BIT if a.full == "adamw_8bit" and kind == "f32" else LOSSES[kind]
    for number in range(a.rounds):
        ours = run_ft(a, kind, number, log)
        say(f"{kind} round {number + 1}  " + one("ft", ours) + (f"  {ours['share']:.2f} of the register tile" if "share" in ours else ""))
        theirs = {f: run_peer(a, f, log) for f in forms}
        for f, r in theirs.items():
            say(f"{kind} round {number + 1}  " + one(f"PyTorch {f}", r))
        best = max(theirs.values(), key=lambda r: r["tokens_per_second"])
        ratios["speed"].append(ours["tokens_per_second"] / best["tokens_per_second"])
        ratios["memory"].append(ours["peak_gib"] / best["peak_gib"])
        ratios["start"].append(ours["first_step_s"] / best["first_step_s"])
        worst = distance(ours["losses"], exact or best["losses"])
        good = good and worst <= bound
        beside = f"from f32: PyTorch {distance(best['losses'], exact):.1e}, ft " if exact else ""
        say(f"{kind} round {number + 1}  ft / PyTorch: speed {ratios['speed'][-1]:.2f}, memory {ratios['memory'][-1]:.3f}, "
            f"start {ratios['start'][-1]:.2f}; "
            f"largest loss difference {beside}{worst:.1e} ({'ok' if worst <= bound else 'TOO LARGE'})")
        median["versions"] = best["versions"]
    say(f"{kind} medians  ft / PyTorch: " + ", ".join(f"{k} {statistics.median(v):.3f}" for k, v in ratios.items()))
    return good, median["versions"]


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("ft", type=Path)
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--model", choices=["llama", "t5", "moe", "gemma2"], default="llama")
    a.add_argument("--data", type=Path, help="default: a folder of its own for each model")
    a.add_argument("--kinds", help="default: bf16,f32; bf16 for gemma2")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--steps", type=int, default=6)
    a.add_argument("--full", choices=["adamw", "adamw_8bit"], help="full fine-tuning with this optimizer, instead of LoRA")
    a.add_argument("--compile", action="store_true")
    a.add_argument("--settings", default="", help="more of ft's, on its command line: \"section.setting=value ...\"")
    a.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = a.parse_args()
    a.kinds = a.kinds or ("bf16" if a.model == "gemma2" else "bf16,f32")
    a.sequences, a.settings = 1 if a.model == "gemma2" else SEQUENCES, a.settings.split()
    usual = Path(tempfile.gettempdir()) / ("ft-bench-data" + ("" if a.model == "llama" else f"-{a.model}"))
    a.ft, a.data = a.ft.resolve(), (a.data or usual).resolve()
    if not (a.data / "train.jsonl").exists():
        a.data.mkdir(parents=True, exist_ok=True)
        subprocess.run([a.python, str(HERE / "peer.py"), "make", str(a.data), "--model", a.model], check=True)

    result = Result(f"bench/cpu_vs_pytorch/run.py FT --model {a.model} --kinds {a.kinds} --rounds {a.rounds} --steps {a.steps}{f' --full {a.full}' if a.full else ''}{' --compile' if a.compile else ''}"
                    + (f" --settings '{' '.join(a.settings)}'" if a.settings else ""))
    say = result.say
    config = json.loads((a.data / "model-bf16" / "config.json").read_text())
    lengths = f"{SOURCE} + {TARGET}" if a.model == "t5" else SOURCE
    say(f"model     {a.model}, {config.get('hidden_size', config.get('d_model'))} wide; {a.sequences} sequences of {lengths}, {f'full fine-tuning, {a.full}' if a.full else 'LoRA r16 on all linears'}, no recomputation")
    good = True
    with open(a.data / "stderr.txt", "w") as log:
        for kind in a.kinds.split(","):
            same, versions = measure(a, kind, say, log)
            good = good and same
    say(f"peer      {json.dumps(versions)}")
    say(f"load after {os.getloadavg()[0]:.1f}")
    result.write(a.result)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
