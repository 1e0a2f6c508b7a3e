#!/usr/bin/env python3
"""OPT's and Gemma 2's shapes, small and with random weights, learn GSM8K: ft beside transformers, the same tokens in
the same order, float32. Writes losses.json and losses.svg.

    run.py FT DATA FOLDER      (a Python with tests/golden/requirements.txt)

DATA has gsm8k/train.jsonl and llama2_tokenizer/tokenizer.model."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers

STEPS, BATCH, LENGTH, RATE = 150, 4, 192, 1e-3
SHAPES = {
    "OPT": {"model_type": "opt", "vocab_size": 32000, "hidden_size": 128, "ffn_dim": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
            "max_position_embeddings": 256, "word_embed_proj_dim": 128, "dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    "Gemma 2": {"model_type": "gemma2", "vocab_size": 32000, "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4,
                "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "query_pre_attn_scalar": 64, "sliding_window": 64,
                "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
}


def tokens(ft, data):
    """Question and answer of a sample, one after the other."""
    rows = [json.loads(line) for line in open(data / "gsm8k/train.jsonl")][:STEPS * BATCH]
    texts = "\n".join(json.dumps(r["question"] + "\n" + r["answer"]) for r in rows)
    out = subprocess.run([ft, "tokenize", "--model", data / "llama2_tokenizer/tokenizer.model"], input=texts, text=True, capture_output=True, check=True)
    return [(json.loads(line) + [2])[:LENGTH] for line in out.stdout.splitlines()]


def transformers_losses(folder, rows):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").train()
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer, losses = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.0), []
    for i in range(0, len(rows), BATCH):
        batch, longest = rows[i:i + BATCH], max(len(r) for r in rows[i:i + BATCH])
        fill = lambda value: torch.tensor([r + [value] * (longest - len(r)) for r in batch])
        mask = torch.tensor([[1] * len(r) + [0] * (longest - len(r)) for r in batch])
        loss = model(input_ids=fill(3), attention_mask=mask, labels=fill(-100)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def ft_losses(ft, folder, rows):
    with open(folder / "train.jsonl", "w") as f:
        f.writelines(json.dumps({"input_ids": r, "labels": r}) + "\n" for r in rows)
    config = {"finetuning_type": "full", "model": {"model_name_or_path": "model"},
              "data": {"datasets": [{"path": "train.jsonl", "type": "tokenized"}], "max_seq_length": LENGTH, "shuffle": False},
              "training": {"output_dir": "out", "per_device_train_batch_size": BATCH, "num_train_epochs": 1, "learning_rate": RATE,
                           "lr_scheduler_type": "constant", "max_grad_norm": 1.0, "weight_decay": 0.0, "bf16": False},
              "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"}}
    (folder / "run.json").write_text(json.dumps(config))
    subprocess.run([ft, "train", "--config", "run.json"], cwd=folder, check=True)
    return [row["loss"] for row in map(json.loads, open(folder / "out/log.jsonl")) if "loss" in row]


def plot(losses):
    """ft's losses as lines, transformers' as dots on them."""
    width, height, top = 720, 360, max(max(v["ft"]) for v in losses.values()) * 1.02
    least = min(min(v["ft"]) for v in losses.values()) * 0.98
    place = lambda i, y: (50 + i * (width - 70) / STEPS, 20 + (top - y) * (height - 60) / (top - least))
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for y in range(int(least) + 1, int(top) + 1):
        a, b = place(0, y), place(STEPS, y)
        svg.append(f'<path d="M{a[0]:.1f} {a[1]:.1f}H{b[0]:.1f}" stroke="#ddd"/><text x="30" y="{a[1] + 4:.1f}">{y}</text>')
    for n, ((name, v), color) in enumerate(zip(losses.items(), ("#c33", "#36c"))):
        points = " ".join("%.1f,%.1f" % place(i, y) for i, y in enumerate(v["ft"]))
        svg.append(f'<polyline points="{points}" fill="none" stroke="{color}"/>')
        svg += ['<circle cx="%.1f" cy="%.1f" r="2.5" fill="none" stroke="%s"/>' % (*place(i, y), color) for i, y in enumerate(v["transformers"]) if i % 5 == 0]
        svg.append(f'<text x="{width - 260}" y="{40 + 18 * n}" fill="{color}">{name}: line ft, circles transformers</text>')
    return "\n".join(svg + [f'<text x="{width // 2}" y="{height - 10}">step</text></svg>']) + "\n"


def main():
    ft, data, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), Path(sys.argv[3])
    rows, losses = tokens(ft, data), {}
    for name, shape in SHAPES.items():
        there = folder / shape["model_type"]
        shutil.rmtree(there, ignore_errors=True)
        there.mkdir(parents=True)
        (there / "config.json").write_text(json.dumps(shape))
        subprocess.run([ft, "init", "--config", there / "config.json", "--output", there / "model"], check=True)
        losses[name] = {"ft": ft_losses(ft, there, rows), "transformers": transformers_losses(there / "model", rows)}
        pairs = list(zip(losses[name]["ft"], losses[name]["transformers"]))
        print(f"{name}: loss {pairs[0][0]:.4f} -> {pairs[-1][0]:.4f}, transformers {pairs[-1][1]:.4f}, "
              f"largest relative difference {max(abs(a - b) / b for a, b in pairs):.1e}", flush=True)
    (folder / "losses.json").write_text(json.dumps(losses))
    (folder / "losses.svg").write_text(plot(losses))


main()
