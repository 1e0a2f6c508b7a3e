#!/usr/bin/env python3
"""Measures DPO with ft beside TRL on one machine: the same weights, pairs, cores and settings, in turns, in one run.

    run.py FT --python PYTHON [--data FOLDER] [--kinds bf16,f32] [--rounds 3] [--steps 6] [--tiny] [--result FILE]

The LLaMA of 134 M with LoRA r16 on all linears, prompts of 384 tokens and answers of 128, two pairs a step; the reference
is the model without its adapter. PYTHON is an interpreter with torch, transformers, peft, datasets and trl 1.16; FOLDER keeps
the model (0.8 GB) between runs. Both are watched from outside as in bench/cpu_vs_pytorch. Tokens are those of all four
sequences, prompts counted twice. ft is compared with the faster of TRL's bf16 forms. In f32 the losses are held to TRL's.
In bf16 the two round at different places, so each is held to an f32 run of the same weights, and TRL's distance is printed
beside ft's. Ends with 1 when ft is too far away. Standard library only.
"""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from provenance import Result  # noqa: E402
spec = importlib.util.spec_from_file_location("watching", HERE.parent / "cpu_vs_pytorch" / "run.py")
watching = importlib.util.module_from_spec(spec)
spec.loader.exec_module(watching)
PAIRS, PROMPT, ANSWER = 2, 384, 128
TOKENS = 2 * PAIRS * (PROMPT + ANSWER)
LOSSES = {"bf16": 1e-2, "f32": 2e-5}                 # largest distance of a step's loss from f32 (ft's for bf16, TRL's for f32)


def ft_config(a, weights, bf16, out):
    return {"model": {"model_name_or_path": str(a.data / f"model-{weights}")}, "lora": {"adapter_name_or_path": str(a.data / "start")},
            "objective": {"type": "dpo", "beta": 0.1},
            "data": {"datasets": [{"path": str(a.data / "train.jsonl")}], "shuffle": False, "max_seq_length": PROMPT + ANSWER},
            "training": {"output_dir": str(out), "per_device_train_batch_size": PAIRS, "gradient_accumulation_steps": 1,
                         "max_steps": a.steps, "learning_rate": 1e-4, "lr_scheduler_type": "constant", "weight_decay": 0.0,
                         "max_grad_norm": 1.0, "bf16": bf16, "gradient_checkpointing": False},
            "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"}}


def run_ft(a, weights, bf16, log):
    work = Path(tempfile.mkdtemp(prefix="ft-bench-"))
    config = work / "run.json"
    config.write_text(json.dumps(ft_config(a, weights, bf16, work / "out")))
    return watching.watch([str(a.ft), "train", "--config", str(config)], TOKENS, follow=work / "out" / "log.jsonl", log=log)


def run_peer(a, kind, log):
    return watching.watch([a.python, str(HERE / "peer.py"), "run", str(a.data), kind, "--steps", str(a.steps)], TOKENS, log=log)


def distance(losses, exact):
    return max(abs(x - y) for x, y in zip(losses, exact, strict=True))


def measure(a, kind, say, log):
    """Rounds of ft, then TRL's forms. True if ft's losses are near enough, and the peer's versions."""
    forms = ["bf16", "autocast"] if kind == "bf16" else ["f32"]
    ratios, good, versions = {"speed": [], "memory": [], "start": []}, True, {}
    exact = run_ft(a, kind, False, log)["losses"] if kind == "bf16" else None
    for number in range(1, a.rounds + 1):
        ours = run_ft(a, kind, kind == "bf16", log)
        say(f"{kind} round {number}  " + watching.one("ft", ours))
        theirs = {f: run_peer(a, f, log) for f in forms}
        for f, r in theirs.items():
            say(f"{kind} round {number}  " + watching.one(f"TRL {f}", r))
        best = max(theirs.values(), key=lambda r: r["tokens_per_second"])
        for name, key in (("speed", "tokens_per_second"), ("memory", "peak_gib"), ("start", "first_step_s")):
            ratios[name].append(ours[key] / best[key])
        away = distance(ours["losses"], exact or best["losses"])
        good = good and away <= LOSSES[kind]
        say(f"{kind} round {number}  ft / TRL: " + ", ".join(f"{k} {v[-1]:.3f}" for k, v in ratios.items()))
        beside = "".join(f", TRL {f} {distance(r['losses'], exact):.1e}" for f, r in theirs.items()) if exact else ""
        say(f"{kind} round {number}  largest distance of a step's loss from {'f32' if exact else 'TRL'}: ft {away:.1e}{beside}"
            f" ({'ok' if away <= LOSSES[kind] else 'TOO LARGE'})")
        versions = {k: v for k, v in best["rows"][-1].items() if k in ("torch", "transformers", "peft", "trl", "threads")}
    say(f"{kind} medians  ft / TRL: " + ", ".join(f"{k} {statistics.median(v):.3f}" for k, v in ratios.items()))
    return good, versions


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("ft", type=Path)
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--data", type=Path)
    a.add_argument("--kinds", default="bf16,f32")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--steps", type=int, default=6)
    a.add_argument("--tiny", action="store_true", help="a tiny model, to try the scripts")
    a.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = a.parse_args()
    usual = Path(tempfile.gettempdir()) / ("ft-bench-preference" + ("-tiny" if a.tiny else ""))
    a.ft, a.data = a.ft.resolve(), (a.data or usual).resolve()
    if not (a.data / "train.jsonl").exists():
        a.data.mkdir(parents=True, exist_ok=True)
        subprocess.run([a.python, str(HERE / "peer.py"), "make", str(a.data), *(["--tiny"] if a.tiny else [])], check=True)
    result = Result(f"bench/preference/run.py FT --kinds {a.kinds} --rounds {a.rounds} --steps {a.steps}{' --tiny' if a.tiny else ''}")
    say, good, versions = result.say, True, {}
    wide = json.loads((a.data / "model-bf16" / "config.json").read_text())["hidden_size"]
    say(f"model     llama, {wide} wide; DPO, {PAIRS} pairs of {PROMPT} + {ANSWER}, LoRA r16 on all linears, no recomputation")
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
