#!/usr/bin/env python3
"""Measures ft's ZeRO stages beside PyTorch's DDP and FSDP2 over Gloo: the same weights, tokens and ranks, in one run.

    run.py FT --python PYTHON [--data FOLDER] [--ranks 2] [--kinds lora,full] [--dtype bf16] [--steps 5] [--result FILE]

A LLaMA of 134M, in bf16 or (--dtype f32, where the CPU has no bf16 products, which PyTorch needs) f32; one thread a rank,
2 x 512 tokens each, AdamW, no recomputation on either side. PYTHON has torch,
transformers and peft (tests/golden/requirements.txt); without it only ft is measured. tok/s is of the median step after
the first; memory is the largest peak resident set of a rank. Ends with 1 when first losses differ. Standard library only.
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
BATCH, LENGTH, VOCABULARY = 2, 512, 32000
LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 768,
         "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 12,
         "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "hidden_act": "silu", "torch_dtype": "bfloat16",
         "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
STAGES = [("stage 0", {"stage": 0}), ("stage 1", {"stage": 1}), ("stage 2", {"stage": 2}), ("stage 3", {"stage": 3}),
          ("stage 3, no overlap", {"stage": 3, "overlap_comm": False}),
          ("stage 3, 1 ahead", {"stage": 3, "stage3_prefetch_bucket_size": 1})]


def make(a):
    """The model and the tokens, once."""
    if (a.data / "train.jsonl").exists():
        return
    a.data.mkdir(parents=True, exist_ok=True)
    (a.data / "config.json").write_text(json.dumps(MODEL))
    subprocess.run([a.ft, "init", "--config", a.data / "config.json", "--output", a.data / "model"], check=True)
    draw = random.Random(0)
    with open(a.data / "train.jsonl", "w") as f:
        for _ in range(64 * 8):
            f.write(json.dumps({"input_ids": [draw.randrange(3, VOCABULARY) for _ in range(LENGTH)]}) + "\n")


def watch(command, log):
    """Runs a command; its stdout and the largest peak of it and its children, GiB."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=log, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {process.returncode}; see {log.name}")
    return out, usage.ru_maxrss / 2**20


def run_ft(a, kind, zero, log):
    work = Path(tempfile.mkdtemp(prefix="ft-bench-"))
    config = {"model": {"model_name_or_path": str(a.data / "model")}, "finetuning_type": kind,
              "data": {"datasets": [{"path": str(a.data / "train.jsonl"), "type": "tokenized"}], "max_seq_length": LENGTH, "shuffle": False},
              "training": {"output_dir": str(work / "out"), "per_device_train_batch_size": BATCH, "max_steps": a.steps, "learning_rate": 1e-4,
                           "lr_scheduler_type": "constant", "weight_decay": 0.0, "max_grad_norm": 0, "bf16": a.dtype == "bf16", "gradient_checkpointing": False},
              "zero_optimization": zero, "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"}}
    if kind == "lora":
        config["lora"] = LORA
    (work / "run.json").write_text(json.dumps(config))
    _, peak = watch([a.ft, "launch", "-n", a.ranks, "train", "--config", work / "run.json"], log)
    rows = [json.loads(line) for line in open(work / "out" / "log.jsonl")]
    shutil.rmtree(work)
    steps = [r for r in rows if "loss" in r]
    memory = rows[-1]["memory"]
    return {"tokens_per_second": statistics.median(r["tokens_per_second"] for r in steps[1:]), "losses": [r["loss"] for r in steps],
            "peak_gib": peak, "states_gib": sum(memory[k] for k in ("weights", "adapter", "gradients", "optimizer")) / 2**30,
            "sent_mib": rows[-1]["sent_per_step"] / 2**20}


def run_peer(a, kind, mode, log):
    command = [a.python, "-m", "torch.distributed.run", "--nproc-per-node", a.ranks, HERE / "peer.py", a.data, "--mode", mode,
               "--dtype", a.dtype, "--steps", a.steps, "--batch", BATCH] + (["--full"] if kind == "full" else [])
    out, _ = watch(command, log)
    return json.loads(out.splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("ft", type=Path)
    p.add_argument("--python", help="an interpreter with torch, transformers and peft; without it only ft is measured")
    p.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "ft-bench-zero")
    p.add_argument("--ranks", type=int, default=2)
    p.add_argument("--kinds", default="lora,full")
    p.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = p.parse_args()
    a.ft, a.data = a.ft.resolve(), a.data.resolve()
    make(a)

    result = Result(f"bench/zero/run.py FT --python PYTHON --ranks {a.ranks} --kinds {a.kinds} --dtype {a.dtype} --steps {a.steps}")
    say = result.say
    say(f"model     LLaMA of 134M, {a.dtype}; {a.ranks} ranks of one thread, {BATCH} x {LENGTH} tokens each; LoRA r16 on all linears, or full")
    good = True
    with open(a.data / "log.txt", "a") as log:
        for kind in a.kinds.split(","):
            ours = {}
            for name, zero in STAGES:
                r = ours[name] = run_ft(a, kind, zero, log)
                say(f"{kind:5} ft {name:20} {r['tokens_per_second']:7.0f} tok/s  {r['peak_gib']:5.2f} GiB a rank, weights and states "
                    f"{r['states_gib']:5.3f}, sent a step {r['sent_mib']:6.1f} MiB  loss {r['losses'][0]:.5f} .. {r['losses'][-1]:.5f}")
            say(f"{kind:5} stage 3 / stage 0: speed {ours['stage 3']['tokens_per_second'] / ours['stage 0']['tokens_per_second']:.2f}")
            if not a.python:
                continue
            theirs = {mode: run_peer(a, kind, mode, log) for mode in ("ddp", "fsdp2")}
            for mode, r in theirs.items():
                say(f"{kind:5} PyTorch {mode:15} {r['tokens_per_second']:7.0f} tok/s  {r['peak_gib']:5.2f} GiB a rank"
                    f"{'':53}loss {r['losses'][0]:.5f} .. {r['losses'][-1]:.5f}  ({r['versions']})")
            best = max(r["tokens_per_second"] for r in theirs.values())
            least = min(r["peak_gib"] for r in theirs.values())
            for name in ("stage 0", "stage 3"):
                say(f"{kind:5} ft {name} / the better of PyTorch's: speed {ours[name]['tokens_per_second'] / best:.2f}, "
                    f"memory {ours[name]['peak_gib'] / least:.2f}")
            worst = max(abs(ours["stage 0"]["losses"][0] - r["losses"][0]) / r["losses"][0] for r in theirs.values())
            good = good and worst < 3e-3
            say(f"{kind:5} largest difference of the first loss {worst:.1e}")
    result.write(a.result)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
