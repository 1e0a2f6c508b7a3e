#!/usr/bin/env python3
"""Does the Python ecosystem read what ft writes? Needs an ft binary and requirements.txt.

    check_interop.py FT [--only REGEX] [--write interop.txt]

For every model case: `ft train` runs the case's 50 steps; then
  train    its losses against the committed ones (largest relative difference)
  load     its folder opens in PEFT (adapters) or transformers (full), with no tensor missing or left over, and gives the
           logits that PyTorch's own training of the same steps ends with
  merge    (adapters) `ft merge`'s folder opens in transformers and gives the logits of base + ft's adapter in PEFT
  eval     `ft eval`'s loss with ft's folder is transformers' loss
  events   TensorBoard's reader finds the losses of log.jsonl in the event files
Logits are compared by their largest absolute difference. `load` compares the ends of two trainings, which rounding drives
apart; see EXCEPTIONS. Ends with 1 if a figure is over its limit.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import peft
import torch
import transformers
from safetensors import safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import model_cases as mc

HERE = Path(__file__).resolve().parent
LIMITS = {"train": 1e-5, "load": 1e-4, "merge": 1e-4, "eval": 1e-5, "events": 1e-6}
EXCEPTIONS = {  # limits of single figures, with the reason
    # 9e-5 on AVX2, 2e-4 on AVX-512. The gradients of its key biases nearly cancel, so that AdamW turns rounding into
    # steps: PyTorch ends 8e-5 from itself there (eager against sdpa attention).
    ("llama-biases-gelu", "load"): 3e-4,
}


def ft(binary, *command):
    done = subprocess.run([str(binary), *map(str, command)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ft {command[0]} ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    return done.stdout


def write_config(case, folder, base, out):
    t = case["training"]
    data = {"path": str(folder / "samples.jsonl"), "type": "tokenized"}
    run = {"model": {"model_name_or_path": str(base)}, "finetuning_type": case["kind"],
           "data": {"datasets": [data], "eval_datasets": [data], "max_seq_length": 64, "shuffle": False},
           "training": {"output_dir": str(out / "trained"), "per_device_train_batch_size": case["batch_size"], "per_device_eval_batch_size": 6,
                        "max_steps": t["steps"], "learning_rate": t["learning_rate"], "lr_scheduler_type": "constant",
                        "weight_decay": t["weight_decay"], "max_grad_norm": t["max_grad_norm"], "adam_beta1": t["adam_beta1"],
                        "adam_beta2": t["adam_beta2"], "adam_epsilon": t["adam_epsilon"], "bf16": False},
           "logging": {"logging_steps": 1, "progress": "none", "report_to": ["jsonl", "tensorboard"]},
           "checkpointing": {"save_strategy": "no"}}
    if case["kind"] == "lora":
        run["lora"] = {"adapter_name_or_path": str(folder / "adapter")}
    path = out / "run.json"
    path.write_text(json.dumps(run))
    return path


def logits(model, rows):
    """Of all samples in one batch: with `dynamic` positions the longest matters to all, and so does what came before."""
    with torch.no_grad():
        all_rows = mc.forward(model, rows)[0].float()
    return torch.cat([all_rows[i, :len(r["input_ids"])].flatten() for i, r in enumerate(rows)])


def load_full(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    wrong = {k: v for k, v in info.items() if v}
    if wrong:
        raise RuntimeError(f"{folder.name}: {wrong}")
    return model.eval()


def load_adapter(base, folder, like):
    """PEFT's model; the file must have the tensors PEFT itself would write, but for the frozen weight of an adapted head."""
    names = lambda f: {n for n in safe_open(f / "adapter_model.safetensors", "pt").keys() if not n.endswith(".base_layer.weight")}
    if names(folder) != names(like):
        raise RuntimeError(f"tensors {sorted(names(folder) ^ names(like))[:4]} are only in one of ft's and PEFT's files")
    model = peft.PeftModel.from_pretrained(mc.load_model(base), folder)
    return model.eval()


def torch_trained(case, base, folder, rows):
    model = mc.load_model(base)
    if case["kind"] == "lora":
        model = peft.PeftModel.from_pretrained(model, folder / "adapter", is_trainable=True)
    batches = [rows[i:i + case["batch_size"]] for i in range(0, len(rows), case["batch_size"])]
    mc.train(model.train(), batches, case["training"])
    return model.eval()


def events(folder, rows):
    """Largest relative difference between the losses in TensorBoard's files and in log.jsonl."""
    found = EventAccumulator(str(folder / "runs"), size_guidance={"scalars": 0})
    found.Reload()
    tag = next(t for t in found.Tags()["scalars"] if t.split("/")[-1] == "loss")
    got = {e.step: e.value for e in found.Scalars(tag)}
    want = {r["step"]: r["loss"] for r in rows if "loss" in r}
    if set(got) != set(want):
        raise RuntimeError(f"TensorBoard has steps {sorted(set(got) ^ set(want))[:4]} that log.jsonl lacks, or lacks them")
    return max(abs(got[s] - want[s]) / want[s] for s in want)


def check(binary, folder, out):
    case = json.loads((folder / "case.json").read_text())
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    base, trained = (folder / case["model"]).resolve(), out / "trained"
    config = write_config(case, folder, base, out)
    ft(binary, "train", "--config", config)
    log = [json.loads(line) for line in (trained / "log.jsonl").read_text().splitlines()]
    losses, want = [r["loss"] for r in log if "loss" in r], case["expected"]["losses"]
    if len(losses) != len(want):
        raise RuntimeError(f"{len(losses)} losses instead of {len(want)}")
    figures = {"train": max(abs(a - b) / b for a, b in zip(losses, want))}
    reference = logits(torch_trained(case, base, folder, rows), rows)
    if case["kind"] == "lora":
        ours = load_adapter(base, trained, folder / "adapter")
        ft(binary, "merge", "--model", base, "--adapter", trained, "--output", out / "merged", "--dtype", "float32")
        figures["merge"] = float((logits(load_full(out / "merged"), rows) - logits(ours, rows)).abs().max())
        told = ft(binary, "eval", "--config", config, "--adapter", trained, "--json")
    else:
        ours = load_full(trained)
        told = ft(binary, "eval", "--config", config, f"model.model_name_or_path={trained}", "--json")
    figures["load"] = float((logits(ours, rows) - reference).abs().max())
    with torch.no_grad():
        loss = float(mc.forward(ours, rows)[1])
    figures["eval"] = abs(json.loads(told)["eval_loss"] - loss) / loss
    figures["events"] = events(trained, log)
    return figures


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("ft", type=Path)
    a.add_argument("--only", default=".")
    a.add_argument("--write", type=Path, help="also write the table to this file")
    a = a.parse_args()
    lines, bad = [], 0

    def say(line):
        print(line, flush=True)
        lines.append(line)

    version = json.loads(ft(a.ft.resolve(), "--version", "--json"))
    say(f"ft {version.get('version')} {version.get('commit')}; " + ", ".join(f"{k} {v}" for k, v in mc.VERSIONS.items()))
    say(f"{'case':24}" + "".join(f"{k:>10}" for k in LIMITS) + "\n" + f"{'limit':24}" + "".join(f"{v:10.0e}" for v in LIMITS.values()))
    for folder in sorted(p.parent for p in (HERE / "models").glob("*/case.json")):
        if not re.search(a.only, folder.name):
            continue
        try:
            with tempfile.TemporaryDirectory(prefix="ft-interop-") as out:
                figures = check(a.ft.resolve(), folder, Path(out))
        except Exception as e:
            bad += 1
            say(f"{folder.name:24} FAILED {type(e).__name__}: {e}")
            continue
        limits = {k: EXCEPTIONS.get((folder.name, k), LIMITS[k]) for k in figures}
        over = [k for k, v in figures.items() if not v <= limits[k]]
        excepted = [f"limit {limits[k]:.0e} for {k}" for k in figures if limits[k] != LIMITS[k]]
        bad += bool(over)
        say(f"{folder.name:24}" + "".join(f"{figures[k]:10.0e}" if k in figures else " " * 10 for k in LIMITS) + ("  OVER " + " ".join(over) if over else "")
            + ("  " + ", ".join(excepted) if excepted else ""))
    say(f"{bad} of {len(lines) - 2} cases failed" if bad else f"all {len(lines) - 2} cases pass")
    if a.write:
        a.write.write_text("\n".join(lines) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
