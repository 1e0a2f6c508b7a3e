#!/usr/bin/env python3
"""Measures what sharing a micro-batch costs: ranks that share tokens or layers beside plain data parallelism of the
same ranks, and how long a sequence may be.

    run.py FT [--data FOLDER] [--ranks 2,4] [--kinds lora,full] [--dtype bf16|f32] [--steps 5] [--gib 4] [--result FILE]

A LLaMA of 134M as in bench/zero, one thread a rank, AdamW, no recomputation, ZeRO stage 0. All grids train on the same
tokens a step: 1 sequence of 1024 tokens a rank. tok/s is of the median step after the first; sent is by a rank in a
step. Pipelines have 8 micro-batches a step, and so has the data parallelism that they are compared with; grids that FT
refuses are shown as such. Then, by ft plan, the longest sequence of which a rank needs at most --gib: one sequence a
micro-batch, full fine-tuning with recomputation, ZeRO stage 3; its growth with the ranks that share it beside theirs.
Ends with 1 where first losses differ. Standard library only.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from provenance import Result  # noqa: E402
LENGTH, VOCABULARY, MICRO = 1024, 32000, 8
LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 768,
         "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 12,
         "max_position_embeddings": 1 << 20, "rms_norm_eps": 1e-6, "hidden_act": "silu", "torch_dtype": "bfloat16",
         "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}


def grids(ranks):
    """name, settings, micro-batches a step, name of the grid to compare with"""
    n = str(ranks)
    size = lambda axis: f"distributed.{axis}_parallel_size={n}"
    return [("data", [], 1, None),
            ("sequence, ulysses", [size("sequence"), "distributed.sequence_parallel_type=ulysses"], 1, "data"),
            ("sequence, ring", [size("sequence"), "distributed.sequence_parallel_type=ring"], 1, "data"),
            ("tensor", [size("tensor")], 1, "data"),
            ("tensor, partitioned", [size("tensor"), "distributed.partition_activations=true"], 1, "data"),
            (f"data, {MICRO} each", [], MICRO, None),
            (f"pipeline, {MICRO}", [size("pipeline")], MICRO, f"data, {MICRO} each"),
            (f"pipeline, {MICRO}, V = 2", [size("pipeline"), "distributed.virtual_pipeline_parallel_size=2"], MICRO,
             f"data, {MICRO} each")]


def make(a):
    """The model and the tokens, once."""
    if (a.data / "train.jsonl").exists():
        return
    a.data.mkdir(parents=True, exist_ok=True)
    (a.data / "config.json").write_text(json.dumps(MODEL))
    subprocess.run([a.ft, "init", "--config", a.data / "config.json", "--output", a.data / "model"], check=True)
    draw = random.Random(0)
    with open(a.data / "train.jsonl", "w") as f:
        for _ in range(64 * MICRO):
            f.write(json.dumps({"input_ids": [draw.randrange(3, VOCABULARY) for _ in range(LENGTH)]}) + "\n")


def config(a, kind, work, length):
    c = {"model": {"model_name_or_path": str(a.data / "model")}, "finetuning_type": kind,
         "data": {"datasets": [{"path": str(a.data / "train.jsonl"), "type": "tokenized"}], "max_seq_length": length, "shuffle": False},
         "training": {"output_dir": str(work / "out"), "max_steps": a.steps, "learning_rate": 1e-4, "lr_scheduler_type": "constant",
                      "weight_decay": 0.0, "max_grad_norm": 0, "bf16": a.dtype == "bf16", "gradient_checkpointing": False},
         "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"}}
    if kind == "lora":
        c["lora"] = LORA
    return c


def train(a, kind, ranks, settings, micro, log):
    """The same samples in each step: what ranks share is one micro-batch of as many as they are. None: refused."""
    work = Path(tempfile.mkdtemp(prefix="ft-bench-"))
    (work / "run.json").write_text(json.dumps(config(a, kind, work, LENGTH)))
    batch = [f"training.per_device_train_batch_size={ranks if settings else 1}", f"training.gradient_accumulation_steps={micro}"]
    command = [a.ft, "launch", "-n", ranks, "train", "--config", work / "run.json", "zero_stage=0", *batch, *settings]
    run = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log.write(run.stderr)
    if run.returncode == 2:
        return None
    if run.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {run.returncode}; see {log.name}")
    rows = [json.loads(line) for line in open(work / "out" / "log.jsonl")]
    shutil.rmtree(work)
    steps = [r for r in rows if "loss" in r]
    return {"speed": statistics.median(r["tokens_per_second"] for r in steps[1:]), "losses": [r["loss"] for r in steps],
            "activations": rows[-1]["memory"]["activations"] / 2**20, "sent": rows[-1]["sent_per_step"] / 2**20}


def planned(a, ranks, kind, length):
    """Bytes of a rank by ft plan, for one sequence of a length that all ranks share; None: refused."""
    work = Path(tempfile.mkdtemp(prefix="ft-bench-"))
    c = config(a, "full", work, length)
    c["training"]["gradient_checkpointing"] = True
    (work / "one.jsonl").write_text(json.dumps({"input_ids": [3] * length}) + "\n")
    c["data"]["datasets"][0]["path"] = str(work / "one.jsonl")
    (work / "run.json").write_text(json.dumps(c))
    command = [a.ft, "plan", "--config", work / "run.json", "--json", "zero_stage=3", f"distributed.nproc_per_node={ranks}",
               "training.per_device_train_batch_size=1"]
    if ranks > 1:
        command += [f"distributed.sequence_parallel_size={ranks}", f"distributed.sequence_parallel_type={kind}"]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    shutil.rmtree(work)
    return None if run.returncode else json.loads(run.stdout)["total"]


def longest(a, ranks, kind):
    """In steps of 256 tokens, by bisection."""
    fits, fails = 0, 4096
    while (bytes_ := planned(a, ranks, kind, fails * 256)) is not None and bytes_ <= a.gib * 2**30 and fails < 1 << 14:
        fits, fails = fails, fails * 2
    while fails - fits > 1:
        middle = (fits + fails) // 2
        bytes_ = planned(a, ranks, kind, middle * 256)
        fits, fails = (middle, fails) if bytes_ is not None and bytes_ <= a.gib * 2**30 else (fits, middle)
    return fits * 256


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("ft", type=Path)
    p.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "ft-bench-parallel")
    p.add_argument("--ranks", default="2,4")
    p.add_argument("--kinds", default="lora,full")
    p.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--gib", type=float, default=4.0, help="memory of a rank, for the longest sequence; 0: leave it out")
    p.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = p.parse_args()
    a.ft, a.data = a.ft.resolve(), a.data.resolve()
    make(a)

    result = Result(f"bench/parallel/run.py FT --ranks {a.ranks} --kinds {a.kinds} --dtype {a.dtype} --steps {a.steps} --gib {a.gib}")
    say = result.say
    say(f"model     LLaMA of 134M, {a.dtype}; ranks of one thread, {LENGTH} tokens each a step; LoRA r16 on all linears, or full")
    good = True
    counts = [int(n) for n in a.ranks.split(",")]
    with open(a.data / "log.txt", "a") as log:
        for kind in a.kinds.split(","):
            for ranks in counts:
                measured = {}
                for name, settings, micro, base in grids(ranks):
                    r = measured[name] = train(a, kind, ranks, settings, micro, log)
                    if r is None:
                        say(f"{kind:5} {ranks} ranks  {name:20} refused")
                        continue
                    beside = f"  {r['speed'] / measured[base]['speed']:5.2f} of {base}" if base else ""
                    say(f"{kind:5} {ranks} ranks  {name:20} {r['speed']:7.0f} tok/s  sent {r['sent']:7.1f} MiB  activations "
                        f"{r['activations']:7.1f} MiB  loss {r['losses'][0]:.5f} .. {r['losses'][-1]:.5f}{beside}")
                    if base:
                        off = abs(r["losses"][0] - measured[base]["losses"][0]) / measured[base]["losses"][0]
                        good = good and off < (3e-3 if a.dtype == "bf16" else 1e-5)
    if a.gib > 0:
        for kind in ("ulysses", "ring"):
            one = longest(a, 1, kind)
            for ranks in [1] + counts:
                n = one if ranks == 1 else longest(a, ranks, kind)
                say(f"longest   {kind:8} {ranks} ranks of {a.gib:g} GiB: {n} tokens, {n / (one * ranks):.2f} of {ranks} times one rank's")
    result.write(a.result)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
