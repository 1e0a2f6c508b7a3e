#!/usr/bin/env python3
"""What ranks send, and what it costs in loss: 300 steps with fewer bits on the wire beside the exact ones.

    run.py FT [--ranks 4] [--steps 300] [--kinds onebit,zero3] [--result FILE]

A LLaMA of 0.9M in bf16, whose masters and optimizer states are f32, learns a chain in which eight tokens may follow each. All runs begin
with the same weights and see the same tokens. Bytes are those that a rank sends in the last step; the loss is the mean of the last 20 steps, and
that of held-out sequences. Standard library only.
"""
import argparse
import json
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
VOCABULARY, LENGTH, BATCH = 512, 64, 4
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 352,
         "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
         "hidden_act": "silu", "torch_dtype": "float32", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
RUNS = {
    "onebit": [("Adam, exact", "onebit_adam", 0, {}, "freeze_step=1000000"), ("1-bit Adam from step 60", "onebit_adam", 0, {}, "freeze_step=60"),
               ("1-bit Adam from step 60, ZeRO-1", "onebit_adam", 1, {}, "freeze_step=60")],
    "zero3": [("stage 3, exact", "adamw", 3, {}, None), ("hpZ within 2", "adamw", 3, {"zero_hpz_partition_size": 2}, None),
              ("qwZ", "adamw", 3, {"zero_quantized_weights": True}, None), ("qgZ", "adamw", 3, {"zero_quantized_gradients": True}, None),
              ("qgZ, two hops", "adamw", 3, {"zero_quantized_gradients": True, "zero_hpz_partition_size": 2}, None),
              ("all three", "adamw", 3, {"zero_quantized_weights": True, "zero_quantized_gradients": True, "zero_hpz_partition_size": 2}, None)]}


def make(work, ft, sequences):
    draw = random.Random(0)
    follow = [[draw.randrange(3, VOCABULARY) for _ in range(8)] for _ in range(VOCABULARY)]
    for name, count in (("train.jsonl", sequences), ("held_out.jsonl", 64)):
        with open(work / name, "w") as f:
            for _ in range(count):
                ids = [draw.randrange(3, VOCABULARY)]
                while len(ids) < LENGTH:
                    ids.append(draw.choice(follow[ids[-1]]))
                f.write(json.dumps({"input_ids": ids}) + "\n")
    (work / "config.json").write_text(json.dumps(MODEL))
    subprocess.run([ft, "init", "--config", work / "config.json", "--output", work / "model"], check=True, stdout=subprocess.DEVNULL)


def train(a, work, optim, stage, zero, arguments):
    config = {"model": {"model_name_or_path": "model"}, "finetuning_type": "full",
              "data": {"datasets": [{"path": "train.jsonl", "type": "tokenized"}], "eval_datasets": [{"path": "held_out.jsonl", "type": "tokenized"}],
                       "max_seq_length": LENGTH, "shuffle": False},
              "training": {"output_dir": "out", "per_device_train_batch_size": BATCH, "max_steps": a.steps, "learning_rate": 1e-3, "bf16": True,
                           "lr_scheduler_type": "linear", "warmup_steps": 20, "max_grad_norm": 1, "optim": optim, "adam_beta2": 0.99},
              "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 1000, **zero},
              "evaluation": {"eval_strategy": "epoch"}, "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"}}
    if arguments:
        config["training"]["optim_args"] = arguments
    (work / "run.json").write_text(json.dumps(config))
    shutil.rmtree(work / "out", ignore_errors=True)
    done = subprocess.run([a.ft, "launch", "-n", str(a.ranks), "train", "--config", "run.json"], cwd=work, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{config['training']['optim']}, stage {stage}, {zero}: exit code {done.returncode}: {done.stderr[-2000:]}")
    rows = [json.loads(line) for line in open(work / "out" / "log.jsonl")]
    losses = [r["loss"] for r in rows if "loss" in r]
    memory = rows[-1]["memory"]
    return {"sent": rows[-1]["sent_per_step"], "first": losses[0], "loss": statistics.mean(losses[-20:]),
            "held_out": [r["eval_loss"] for r in rows if "eval_loss" in r][-1],
            "memory": sum(memory[k] for k in ("weights", "adapter", "gradients", "optimizer", "communication"))}


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("ft", type=Path)
    p.add_argument("--ranks", type=int, default=4)
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--kinds", default="onebit,zero3")
    p.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = p.parse_args()
    a.ft = a.ft.resolve()
    result = Result(f"bench/wire/run.py FT --ranks {a.ranks} --steps {a.steps} --kinds {a.kinds}")
    work = Path(tempfile.mkdtemp(prefix="ft-bench-"))
    try:
        make(work, a.ft, BATCH * a.ranks * a.steps)
        for kind in a.kinds.split(","):
            exact = None
            for name, optim, stage, zero, arguments in RUNS[kind]:
                r = train(a, work, optim, stage, zero, arguments)
                exact = exact or r
                result.say(f"{name:32} sent a step {r['sent']:10,} bytes ({r['sent'] / exact['sent']:6.3f})   loss {r['first']:.4f} .. {r['loss']:.4f} "
                           f"({r['loss'] - exact['loss']:+.4f})   held out {r['held_out']:.4f} ({r['held_out'] - exact['held_out']:+.4f})   "
                           f"weights, states and buffers {r['memory'] / 2**20:6.2f} MiB a rank")
    finally:
        shutil.rmtree(work)
    if a.result:
        result.write(a.result)


if __name__ == "__main__":
    main()
