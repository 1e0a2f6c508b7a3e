#!/usr/bin/env python3
"""Measures ft generate beside llama.cpp on one machine: the same weights, prompts and cores, in turns, in one run.

    run.py FT --python PYTHON [--kinds bf16,int8,nf4,nf4+int8] [--batches 1,4,16] [--rounds 3] [--new 64] [--result FILE]

PYTHON is an interpreter with llama-cpp-python, compiled for this machine. The model is a LLaMA of 134 M parameters with random weights,
which ft makes, and exports to GGUF: bf16 stands beside BF16, int8 (ft generate --quantize int8) beside Q8_0, nf4 beside Q4_0, also with
the head in 8 bits (nf4+int8), which llama.cpp has in 6. ft computes in bfloat16 in all of them. Speed is that of decoding: new tokens
over the difference between a long and a short run, so that neither starting nor reading the prompts (64 tokens each) counts. Both
programs run on the cores that this one may use (taskset). Standard library only.
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
# What ft is told, and the dtype of the export that llama.cpp runs.
KINDS = {"bf16": ([], "bfloat16"), "int8": (["--quantize", "int8"], "q8_0"), "nf4": (["--quantize", "nf4"], "q4_0"),
         "nf4+int8": (["--quantize", "nf4", "--quantize-head", "int8"], "q4_0")}


def run_ft(a, folder, batch, kind, new):
    """(wall seconds, CPU seconds) of one run"""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([a.ft, "generate", "--model", folder / "model", "--input", folder / f"in{batch}.jsonl", "--output", folder / "out.jsonl",
                    "--overwrite", "--dtype", "bfloat16", *KINDS[kind][0], f"generation.max_new_tokens={new}", f"generation.min_new_tokens={new}",
                    f"generation.batch_size={batch}"], check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime


def ours(a, folder, batch, kind):
    shorts = [run_ft(a, folder, batch, kind, SHORT) for _ in range(3)]
    short, short_cpu = (statistics.median(s[i] for s in shorts) for i in (0, 1))
    long, long_cpu = run_ft(a, folder, batch, kind, SHORT + a.new)
    return {"seconds": long - short, "cpu_seconds": long_cpu - short_cpu}


def theirs(a, folder, batch, kind):
    done = subprocess.run([a.python, HERE / "peer.py", folder / f"{KINDS[kind][1]}.gguf", folder / f"in{batch}.jsonl", "--short", str(SHORT),
                           "--long", str(SHORT + a.new), "--threads", str(len(os.sched_getaffinity(0)))], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    return json.loads(done.stdout.splitlines()[-1])


def measure(a, folder, kind, batch, say):
    """Rounds of both in turns; the peer's version."""
    ratios, cpu_ratios = [], []
    for number in range(a.rounds):
        us, them = ours(a, folder, batch, kind), theirs(a, folder, batch, kind)
        for name, r in (("ft", us), ("llama.cpp", them)):
            say(f"{kind:5} batch {batch:2} round {number + 1}  {name:10} {a.new * batch / r['seconds']:8.1f} tok/s   "
                f"{1000 * r['cpu_seconds'] / a.new:7.1f} ms of processor time a pass")
        ratios.append(them["seconds"] / us["seconds"])
        cpu_ratios.append(them["cpu_seconds"] / us["cpu_seconds"])
    say(f"{kind:5} batch {batch:2} medians  ft / llama.cpp: {statistics.median(ratios):.2f} by the clock, "
        f"{statistics.median(cpu_ratios):.2f} by processor time")
    return {k: them[k] for k in ("llama_cpp_python", "threads")}


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("ft", type=Path)
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--kinds", default="bf16,int8,nf4,nf4+int8")
    a.add_argument("--batches", default="1,4,16")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--new", type=int, default=64)
    a.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = a.parse_args()
    a.ft = a.ft.resolve()
    batches, kinds = [int(b) for b in a.batches.split(",")], a.kinds.split(",")

    with tempfile.TemporaryDirectory(prefix="ft-bench-") as name:
        folder = Path(name)
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        (folder / "config.json").write_text(json.dumps(CONFIG))
        subprocess.run([a.ft, "init", "--config", folder / "config.json", "--output", folder / "model"], **quiet)
        for dtype in sorted({KINDS[kind][1] for kind in kinds}):
            subprocess.run([a.ft, "export", "--to", "gguf", "--from", folder / "model", "--dtype", dtype, "--output",
                            folder / f"{dtype}.gguf"], **quiet)
        draw = random.Random(1)
        for batch in batches:
            rows = [[1] + [draw.randrange(3, CONFIG["vocab_size"]) for _ in range(63)] for _ in range(batch)]
            (folder / f"in{batch}.jsonl").write_text("".join(json.dumps({"input_ids": r}) + "\n" for r in rows))
        result = Result(f"bench/answers/run.py FT --kinds {a.kinds} --batches {a.batches} --rounds {a.rounds} --new {a.new}")
        result.say("model     LLaMA, 134 M parameters, 768 wide, 12 layers; prompts of 64 tokens")
        for kind in kinds:
            for batch in batches:
                versions = measure(a, folder, kind, batch, result.say)
    result.say(f"peer      {json.dumps(versions)}")
    result.say(f"load after {os.getloadavg()[0]:.1f}")
    result.write(a.result)


if __name__ == "__main__":
    main()
