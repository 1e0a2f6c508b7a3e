#!/usr/bin/env python3
"""What a curriculum by length and random-LTD save: a small LLaMA learns the bytes of GSM8K from nothing, in the same number
of steps with and without them. Prints held-out losses against the work done, in layer-tokens (tokens times the layers
that they go through), and how much of it each run needed for the loss that the weakest of them ended with.

    run.py FT GSM8K.jsonl FOLDER [STEPS]"""
import json
import subprocess
import sys
from pathlib import Path

ft, data, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
steps = int(sys.argv[4]) if len(sys.argv) > 4 else 120
LAYERS, DROPPING, LENGTH, BATCH, HELD_OUT = 6, 4, 256, 8, 64

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256, "hidden_size": 96,
         "intermediate_size": 256, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": 4,
         "max_position_embeddings": LENGTH, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "hidden_act": "silu",
         "initializer_range": 0.02, "bos_token_id": 1, "eos_token_id": 2, "rope_theta": 10000.0}
HALF = steps * 2 // 3
CURRICULUM = {"enabled": True, "data_sampling": {"enabled": True, "curriculum_learning": {
    "enabled": True, "curriculum_metrics": {"seqlen": {
        "min_difficulty": 64, "max_difficulty": LENGTH, "schedule_type": "fixed_linear",
        "schedule_config": {"total_curriculum_step": HALF, "difficulty_step": 8}}}}}}
RANDOM_LTD = {"enabled": True, "data_routing": {"enabled": True, "random_ltd": {
    "enabled": True, "total_layer_num": LAYERS, "random_ltd_layer_num": DROPPING, "random_ltd_layer_id": [1, 2, 3, 4],
    "random_ltd_schedule": {"min_value": 128, "max_value": LENGTH, "schedule_type": "fixed_linear",
                            "schedule_config": {"require_steps": HALF, "seq_per_step": 16}}}}}
RUNS = {"neither": {}, "curriculum": CURRICULUM, "random-LTD": RANDOM_LTD, "both": {**CURRICULUM, **RANDOM_LTD}}


def prepare():
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(MODEL))
    subprocess.run([ft, "init", "--config", folder / "config.json", "--output", folder / "model"], check=True)
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    samples = [list((r["question"] + "\n" + r["answer"]).encode())[:LENGTH] for r in rows]
    lines = [json.dumps({"input_ids": s, "labels": s}) + "\n" for s in samples]
    (folder / "eval.jsonl").write_text("".join(lines[:HELD_OUT]))
    (folder / "train.jsonl").write_text("".join(lines[HELD_OUT:]))


def train(name, efficiency):
    config = {
        "model": {"model_name_or_path": "model"}, "finetuning_type": "full",
        "data": {"datasets": [{"path": "train.jsonl", "type": "tokenized"}],
                 "eval_datasets": [{"path": "eval.jsonl", "type": "tokenized"}], "max_seq_length": LENGTH},
        "training": {"output_dir": f"out-{name}", "per_device_train_batch_size": BATCH, "max_steps": steps,
                     "per_device_eval_batch_size": 16, "learning_rate": 3e-3, "warmup_steps": 10, "bf16": False,
                     "gradient_checkpointing": False},
        "evaluation": {"eval_strategy": "steps", "eval_steps": max(1, steps // 12)},
        "checkpointing": {"save_strategy": "no"}, "logging": {"logging_steps": 1, "progress": "none"},
        **({"data_efficiency": efficiency} if efficiency else {})}
    (folder / f"{name}.json").write_text(json.dumps(config, indent=1))
    subprocess.run([ft, "train", "--config", folder / f"{name}.json", "--overwrite"], check=True, stderr=subprocess.DEVNULL)
    return [json.loads(line) for line in (folder / f"out-{name}/log.jsonl").read_text().splitlines()]


def curve(log):
    """[(layer-tokens in millions, held-out loss)]. What a layer that drops keeps is taken as that share of a step whose
    samples all have the step's longest length; most have."""
    work, seen, points = 0.0, 0, []
    for row in log:
        if "loss" in row:
            tokens, seen = row["num_input_tokens_seen"] - seen, row["num_input_tokens_seen"]
            longest = row.get("curriculum/difficulty", LENGTH)
            kept = min(1, row.get("random_ltd/kept_tokens", longest) / longest)
            work += tokens * (LAYERS - DROPPING + DROPPING * kept) / 1e6
        elif "eval_loss" in row:
            points.append((work, row["eval_loss"]))
    return points


def work_for(points, loss):
    """Between the evaluations around it, linearly."""
    for (a, la), (b, lb) in zip(points, points[1:]):
        if lb <= loss:
            return a + (b - a) * (la - loss) / (la - lb)
    return points[-1][0]


def main():
    prepare()
    logs = {name: train(name, efficiency) for name, efficiency in RUNS.items()}
    curves = {name: curve(log) for name, log in logs.items()}
    weakest = max(points[-1][1] for points in curves.values())
    print(f"| run | held-out loss after {steps} steps | layer-tokens (millions) | of these for a loss of {weakest:.3f} | train seconds |")
    print("|---|---|---|---|---|")
    for name, points in curves.items():
        print(f"| {name} | {points[-1][1]:.3f} | {points[-1][0]:.2f} | {work_for(points, weakest):.2f} | {logs[name][-1]['train_runtime']:.0f} |")


main()
