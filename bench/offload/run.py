#!/usr/bin/env python3
"""QLoRA (r 16, all linears) of random 4-bit weights in LLaMA-2-7B's shape, or full fine-tuning (--full), with everything in
memory, with parameters in files, and with parameters and states in files, in turns: peak resident memory, speed, and what the
disk allows.

    run.py FT --data FOLDER [--shape 7b] [--full] [--lengths 512,2048] [--rounds 3] [--steps 4] [--result FILE]

FOLDER is on the disk that is measured and gets the model (13 GB in bf16 for 7b, while it is quantized) and the files. Needs a
quiet machine. Standard library only.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import Result  # noqa: E402

SHAPES = {"7b": (4096, 11008, 32, 32, 32000), "1b": (2048, 5632, 22, 32, 32000), "tiny": (256, 704, 4, 8, 2048)}
ROWS = 64


def make(a):
    """The model and rows of each length, once."""
    folder = a.data / (a.shape + "-full" * a.full)
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    hidden, inner, layers, heads, vocabulary = SHAPES[a.shape]
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary, "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
        "initializer_range": 0.02, "bos_token_id": 1, "eos_token_id": 2}))
    subprocess.run([a.ft, "init", "--config", folder / "config.json", "--output", folder / "model", "--dtype", "bfloat16"], check=True)
    if not a.full:
        (folder / "model").rename(folder / "bf16")
        subprocess.run([a.ft, "quantize", "--model", folder / "bf16", "--output", folder / "model"], check=True)
        shutil.rmtree(folder / "bf16")
    draw = random.Random(0)
    for length in a.lengths:
        rows = ([draw.randrange(3, vocabulary) for _ in range(length)] for _ in range(ROWS))
        (folder / f"{length}.jsonl").write_text("".join(json.dumps({"input_ids": row, "labels": row}) + "\n" for row in rows))
    (folder / "done").touch()
    return folder


def homes(folder, *what):
    return [f"zero_optimization.{w}.{k}" for w in what for k in ("device=nvme", f"nvme_path={folder}")]


def run_json(a, folder, length):
    file = folder / f"{length}.json"
    method = {"finetuning_type": "full"} if a.full else {"lora": {"r": 16, "target_modules": "all-linear"}}
    file.write_text(json.dumps({
        "model": {"model_name_or_path": "model"}, **method,
        "data": {"datasets": [{"path": f"{length}.jsonl", "type": "tokenized"}], "max_seq_length": length},
        "training": {"output_dir": f"out-{length}", "per_device_train_batch_size": 1, "max_steps": a.steps, "bf16": True,
                     "gradient_checkpointing": True, "learning_rate": 1e-4},
        "checkpointing": {"save_strategy": "no"}, "logging": {"logging_steps": 1, "progress": "none"}}))
    return file


def train(a, folder, length, settings):
    """Peak resident bytes, seconds of the median step after the first, and the run's last row."""
    words = [a.ft, "train", "--config", folder / f"{length}.json", "--overwrite", *settings]
    child = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"exit code {child.returncode}: {' '.join(map(str, words))}")
    rows = [json.loads(line) for line in open(folder / f"out-{length}" / "log.jsonl")]
    speed = statistics.median(r["tokens_per_second"] for r in rows[1:] if "loss" in r)
    return used.ru_maxrss * 1024, length / speed, rows[-1]


def disk_speed(a, file, settings):
    """Bytes a second that ft plan measures, and its words."""
    words = [a.ft, "plan", "--config", file, *settings]
    plan = json.loads(subprocess.run([*words, "--json"], check=True, stdout=subprocess.PIPE).stdout)
    moved, seconds = plan["read_per_step"] + plan["written_per_step"], plan["files_seconds_per_step"]
    return moved / seconds if seconds else 0


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("ft", type=Path)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--shape", choices=SHAPES, default="7b")
    p.add_argument("--full", action="store_true", help="fine-tune all weights, in bf16")
    p.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=[512, 2048])
    p.add_argument("--rounds", type=int, default=3, help="of the three ways in turns")
    p.add_argument("--steps", type=int, default=4, help="of each run; the first does not count")
    p.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = p.parse_args()
    a.ft, a.data = a.ft.resolve(), a.data.resolve()
    result = Result(f"bench/offload/run.py FT --data FOLDER --shape {a.shape}{' --full' * a.full} --rounds {a.rounds} --steps {a.steps}")
    folder = make(a)
    ways = {"resident": [], "parameters": homes(folder, "offload_param"),
            "both": homes(folder, "offload_param", "offload_optimizer")}
    for length in a.lengths:
        file = run_json(a, folder, length)
        runs = {name: [] for name in ways}
        for _ in range(a.rounds):
            for name, settings in ways.items():
                runs[name].append(train(a, folder, length, settings))
        base = statistics.median(seconds for _, seconds, _ in runs["resident"])
        for name, all_runs in runs.items():
            memory = max(peak for peak, _, _ in all_runs) / 2**30
            seconds, row = statistics.median(s for _, s, _ in all_runs), all_runs[-1][2]
            line = f"{length:5} tokens  {name:10} {memory:6.2f} GiB  {seconds:8.2f} s a step  {base / seconds:5.2f} of resident"
            if ways[name]:
                read, written = row["read_per_step"], row["written_per_step"]
                bound = (read + written) / disk_speed(a, file, ways[name])
                line += (f"  {read / 2**30:.2f} GiB read, {written / 2**30:.2f} written: {bound:.2f} s by the disk alone, "
                         f"{max(base, bound) / seconds:.2f} of what the two allow ({row['files_by']})")
            result.say(line)
    result.write(a.result)


if __name__ == "__main__":
    main()
