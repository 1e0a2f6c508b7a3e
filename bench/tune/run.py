#!/usr/bin/env python3
"""Compares what ft tune chooses with the best of the full grid, on three small models: LLaMA, T5 and a QLoRA.

    run.py FT [--data FOLDER] [--models llama,t5,qlora] [--rounds 5] [--result FILE]

For each model: every setting that fits is tried (ft tune --trials all), ft tune searches anew, and the two winners train in
turns, so that what else the machine does falls on both. Ends with 1 when a search needs more than a tenth of the trials, or
what it chose is more than 3 % slower. Needs a quiet machine and about half an hour. Standard library only.
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from provenance import Result  # noqa: E402

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 2048, "hidden_size": 192, "intermediate_size": 512,
         "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 6, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
         "hidden_act": "silu", "torch_dtype": "float32", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
T5 = {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "vocab_size": 2048, "d_model": 192, "d_kv": 32, "d_ff": 512,
      "num_layers": 3, "num_decoder_layers": 3, "num_heads": 6, "feed_forward_proj": "relu", "is_encoder_decoder": True,
      "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6,
      "initializer_factor": 1.0, "tie_word_embeddings": True, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
MODELS = {"llama": (LLAMA, {"finetuning_type": "full"}),
          "t5": (T5, {"finetuning_type": "full"}),
          "qlora": ({**LLAMA, "hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 8, "num_key_value_heads": 8},
                    {"quantization": {"load_in_4bit": True}, "lora": {"r": 8}})}


def make(a, name):
    """The model, its data and its run.json, once."""
    folder, (model, settings) = a.data / name, MODELS[name]
    if (folder / "run.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model))
    subprocess.run([a.ft, "init", "--config", folder / "config.json", "--output", folder / "model"], check=True)
    draw = random.Random(0)
    tokens = lambda low, high: [draw.randrange(3, model["vocab_size"]) for _ in range(draw.randrange(low, high))]
    with open(folder / "train.jsonl", "w") as f:
        for _ in range(2048):
            row = {"input_ids": tokens(48, 96)}
            if name == "t5":
                row["labels"] = tokens(24, 48)
            f.write(json.dumps(row) + "\n")
    config = {"model": {"model_name_or_path": "model"}, "data": {"datasets": [{"path": "train.jsonl", "type": "tokenized"}]},
              "training": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "learning_rate": 1e-4}, **settings}
    (folder / "run.json").write_text(json.dumps(config))
    return folder


def tune(a, folder, name, *more):
    shutil.rmtree(folder / name, ignore_errors=True)
    done = subprocess.run([a.ft, "tune", "--config", folder / "run.json", f"training.output_dir={folder / name}", "--json", *more],
                          stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def train(a, folder, tuned):
    """tok/s of the median step after the first."""
    ranks = json.loads(Path(tuned).read_text())["distributed"]["nproc_per_node"]
    words = [a.ft, *(["launch"] if ranks != "auto" and ranks > 1 else []), "train", "--config", tuned, "--overwrite"]
    words += [f"training.output_dir={folder / 'run'}", f"training.max_steps={a.steps}", "logging.logging_steps=1", "logging.progress=none",
              "checkpointing.save_strategy=no"]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    rows = [json.loads(line) for line in open(folder / "run" / "log.jsonl")]
    return statistics.median(r["tokens_per_second"] for r in rows[1:] if "loss" in r)


def shown(settings):
    return ", ".join(f"{path.rsplit('.', 1)[-1]} {json.dumps(value)}" for path, value in settings.items())


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("ft", type=Path)
    p.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "ft-bench-tune")
    p.add_argument("--models", default="llama,t5,qlora")
    p.add_argument("--rounds", type=int, default=5, help="of the two winners in turns")
    p.add_argument("--steps", type=int, default=16, help="of each such run")
    p.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = p.parse_args()
    a.ft, a.data = a.ft.resolve(), a.data.resolve()

    result = Result(f"bench/tune/run.py FT --models {a.models} --rounds {a.rounds}")
    good = True
    for name in a.models.split(","):
        folder = make(a, name)
        grid = tune(a, folder, "grid", "--trials", "all")
        found = tune(a, folder, "search")
        share = len(found["trials"]) / grid["fit"]
        result.say(f"{name:6} grid    {len(grid['trials'])} trials, best {grid['best']['tokens_per_second']:.0f} tok/s: {shown(grid['best']['settings'])}")
        result.say(f"{name:6} ft tune {len(found['trials'])} trials ({share:.1%}), best {found['best']['tokens_per_second']:.0f} tok/s: "
                   f"{shown(found['best']['settings'])}")
        if found["start"] and found["start"]["tokens_per_second"]:
            gain = found["best"]["tokens_per_second"] / found["start"]["tokens_per_second"]
            result.say(f"{name:6} {gain:.2f} times as fast as the configuration as it was")
        lost = 0.0
        if found["best"]["settings"] == grid["best"]["settings"]:
            result.say(f"{name:6} the same settings")
        else:
            pairs = [(train(a, folder, grid["config"]), train(a, folder, found["config"])) for _ in range(a.rounds)]
            theirs, ours = (statistics.median(side) for side in zip(*pairs))
            lost = 1 - statistics.median(b / g for g, b in pairs)
            result.say(f"{name:6} in turns: grid's {theirs:.0f} tok/s, ft tune's {ours:.0f} tok/s: {-lost:+.1%}, median of {a.rounds} rounds")
        good = good and share <= 0.1 and lost <= 0.03
    result.write(a.result)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
