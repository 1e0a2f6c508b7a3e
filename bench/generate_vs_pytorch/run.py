#!/usr/bin/env python3
"""Measures ft generate beside transformers' generate on one machine: the same weights, prompts and cores, in turns, in one run.

    run.py FT --python PYTHON [--kinds float32,bfloat16] [--batches 1,8] [--rounds 3] [--new 64] [--result FILE]

PYTHON is an interpreter with torch and transformers (tests/golden/requirements.txt). The model is a LLaMA of 134 M parameters with
random weights, which ft makes. Speed is that of decoding: new tokens over the difference between a long and a short run, so that
neither starting nor reading the prompts (64 tokens each) counts. Beside the time that passed stands the processors' time (in user
mode), which other programs on the machine disturb less. The float32 tokens of both must be the same; ends with 1 when they are not. Both programs run on
the cores that this one may use (taskset). Standard library only.
"""
import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from provenance import Result  # noqa: E402
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000, "hidden_size": 768, "intermediate_size": 2048,
          "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 12, "max_position_embeddings": 2048,
          "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32",
          "initializer_range": 0.1}
SHORT = 2


def run_ft(a, folder, batch, kind, new):
    """(output rows, wall seconds, CPU seconds) of one run"""
    out = folder / "out.jsonl"
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([a.ft, "generate", "--model", folder / "model", "--input", folder / f"in{batch}.jsonl", "--output", out, "--overwrite",
                    "--dtype", kind, f"generation.max_new_tokens={new}", f"generation.min_new_tokens={new}", f"generation.batch_size={batch}"],
                   check=True, stderr=subprocess.DEVNULL)
    wall, now = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    rows = [json.loads(line)["output_ids"] for line in out.read_text().splitlines()]
    return rows, wall, now.ru_utime - before.ru_utime


def ours(a, folder, batch, kind):
    shorts = [run_ft(a, folder, batch, kind, SHORT)[1:] for _ in range(3)]
    short, short_cpu = (statistics.median(s[i] for s in shorts) for i in (0, 1))
    rows, long, long_cpu = run_ft(a, folder, batch, kind, SHORT + a.new)
    return {"seconds": long - short, "cpu_seconds": long_cpu - short_cpu, "tokens": rows}


def theirs(a, folder, batch, kind):
    done = subprocess.run([a.python, HERE / "peer.py", folder / "model", folder / f"in{batch}.jsonl", "--dtype", kind, "--short", str(SHORT),
                           "--long", str(SHORT + a.new)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout.splitlines()[-1])


def measure(a, folder, kind, batch, say):
    """Rounds of both in turns; True if the tokens agree where they must."""
    same, ratios, cpu_ratios = True, [], []
    for number in range(a.rounds):
        us, them = ours(a, folder, batch, kind), theirs(a, folder, batch, kind)
        tokens = a.new * batch
        for name, r in (("ft", us), ("transformers", them)):
            say(f"{kind:8} batch {batch} round {number + 1}  {name:12} {tokens / r['seconds']:8.1f} tok/s   "
                f"{1000 * r['cpu_seconds'] / a.new:7.1f} ms of processor time a pass")
        ratios.append(them["seconds"] / us["seconds"])
        cpu_ratios.append(them["cpu_seconds"] / us["cpu_seconds"])
        agree = us["tokens"] == them["tokens"]
        same = same and (agree or kind != "float32")
        say(f"{kind:8} batch {batch} round {number + 1}  ft / transformers: {ratios[-1]:.2f} by the clock, {cpu_ratios[-1]:.2f} by processor "
            f"time; {'the same tokens' if agree else 'OTHER TOKENS' if kind == 'float32' else 'other tokens (rounding)'}")
    say(f"{kind:8} batch {batch} medians  ft / transformers: {statistics.median(ratios):.2f} by the clock, "
        f"{statistics.median(cpu_ratios):.2f} by processor time")
    return same, {k: them[k] for k in ("torch", "transformers", "threads")}


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("ft", type=Path)
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--kinds", default="float32,bfloat16")
    a.add_argument("--batches", default="1,8")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--new", type=int, default=64)
    a.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = a.parse_args()
    a.ft, good = a.ft.resolve(), True

    with tempfile.TemporaryDirectory(prefix="ft-bench-") as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        subprocess.run([a.ft, "init", "--config", folder / "config.json", "--output", folder / "model"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        draw = random.Random(1)
        for batch in map(int, a.batches.split(",")):
            rows = [[1] + [draw.randrange(3, CONFIG["vocab_size"]) for _ in range(63)] for _ in range(batch)]
            (folder / f"in{batch}.jsonl").write_text("".join(json.dumps({"input_ids": r}) + "\n" for r in rows))
        result = Result(f"bench/generate_vs_pytorch/run.py FT --kinds {a.kinds} --batches {a.batches} --rounds {a.rounds} --new {a.new}")
        say = result.say
        say("model     LLaMA, 134 M parameters, 768 wide, 12 layers; prompts of 64 tokens")
        for kind in a.kinds.split(","):
            for batch in map(int, a.batches.split(",")):
                same, versions = measure(a, folder, kind, batch, say)
                good = good and same
    say(f"peer      {json.dumps(versions)}")
    say(f"load after {os.getloadavg()[0]:.1f}")
    result.write(a.result)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
