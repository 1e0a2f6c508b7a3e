#!/usr/bin/env python3
"""Random runs of kinds of adapters beside PEFT, float32, on the CPU.

    run.py FT [--kinds BIAS,ACTIVATED,MISS,HIRA,SHIRA,OFT] [--runs 100] [--first 0] [--write FILE]      (a Python with tests/golden/requirements.txt)

A run's number is its seed: it draws a small model of some family, settings of the adapter, samples, a rate and a
number of steps. PEFT makes an adapter whose every tensor is away from zero and trains it; ft trains the same adapter.
They agree if
  losses  every step's loss is PEFT's
  file    ft's folder has the tensors that PEFT writes, opens in PEFT, and gives the logits that PEFT's training ends with
  merge   `ft merge` of ft's folder has the weights of PEFT's merge_and_unload of the same folder
within LIMITS. Ends with 1 if a run disagrees."""
import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "golden"))
import check_interop as interop
import model_cases as mc
import peft
import torch
from safetensors.torch import load_file

LIMITS = {"losses": 2e-5, "file": 2e-4, "merge": 2e-6}   # relative; difference of logits, of the largest above 1; of a weight
LINEARS = {"gpt2": ["c_attn", "c_fc", "attn.c_proj", "mlp.c_proj"], "t5": ["q", "k", "v", "o", "wi", "wo"], "phi3": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]}
USUAL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def model_spec(draw, kind, seed):
    families = ["llama", "llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2", "t5"] + ["gpt2"] * (kind == "HIRA")
    if kind == "BIAS":                               # PEFT merges biases of B where linears have biases
        families = ["llama", "gpt2"]
    if kind == "ACTIVATED":
        families = families[:-1]
    family = draw.choice(families)
    width, heads = draw.choice([(16, 2), (24, 3), (32, 4), (40, 4)])
    layers, spec = draw.randint(1, 3), {"seed": seed, "model_type": family, "dtype": "f32", "batch": 2}
    spec["lengths"] = [draw.randint(3, 24) for _ in range(6)]
    if family == "t5":
        # Attention of T5 is not scaled: with larger weights any rounding turns the run.
        spec["config"] = {"vocab_size": 59, "d_model": width, "d_kv": draw.choice([6, 8]), "d_ff": draw.choice([30, 36]), "num_layers": layers,
                          "num_heads": heads, "dropout_rate": 0.0, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12,
                          "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1, "initializer_factor": 0.3}
        return spec
    if family == "gpt2":
        spec["config"] = {"vocab_size": 59, "n_embd": width, "n_head": heads, "n_layer": layers, "n_positions": 64, "pad_token_id": 0,
                          "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2}
        return spec
    spec["config"] = {"vocab_size": 59, "hidden_size": width, "intermediate_size": draw.choice([30, 36, 50]), "num_hidden_layers": layers,
                      "num_attention_heads": heads, "num_key_value_heads": draw.choice([1, heads]), "max_position_embeddings": 64,
                      "tie_word_embeddings": draw.random() < 0.3, "pad_token_id": 0, "head_dim": width // heads}
    if family == "llama":
        all_of_them = kind == "BIAS"
        spec["config"].update(attention_bias=draw.random() < 0.4 or all_of_them, mlp_bias=draw.random() < 0.4 or all_of_them)
    if family == "phi3":
        spec["config"].update(bos_token_id=1, eos_token_id=2)
    return spec


def targets(draw, spec):
    """A choice of linears: names, an expression, or all; and what goes with a list."""
    names = LINEARS.get(spec["model_type"], USUAL)
    some = draw.sample(names, draw.randint(1, len(names)))
    form = draw.random()
    if form < 0.25:
        return {"target_modules": "all-linear"}
    if form < 0.4:
        return {"target_modules": ".*\\.(" + "|".join(some) + ")"}
    chosen = {"target_modules": some}
    if draw.random() < 0.3 and spec["model_type"] not in ("t5", "gpt2"):
        chosen["layers_to_transform"] = [draw.randrange(spec["config"]["num_hidden_layers"])]
    if draw.random() < 0.2:
        chosen["exclude_modules"] = [draw.choice(names)]
    return chosen if set(some) - set(chosen.get("exclude_modules", [])) else {"target_modules": some}


def miss(draw, spec):
    c = spec["config"]                               # r is at most the smallest number of inputs
    inputs = [c[k] for k in ("hidden_size", "intermediate_size", "d_model", "d_ff") if k in c] + [c["num_heads"] * c["d_kv"] for _ in [0] if "d_kv" in c]
    settings = {"r": draw.randint(1, min(*inputs, 30)), **targets(draw, spec)}
    if draw.random() < 0.3:
        settings["bias"] = draw.choice(["all", "MiSS_only"])
    return settings


def hira(draw, spec):
    return {"r": draw.randint(1, 12), **targets(draw, spec)}


def shira(draw, spec):
    chosen = targets(draw, spec)
    settings = {"r": draw.randint(1, 4), "target_modules": chosen["target_modules"]}
    if draw.random() < 0.5:
        settings["random_seed"] = draw.randrange(1 << 34)
    return settings


def biased(draw, spec):
    """LoRA with a bias of B."""
    settings = {"r": draw.randint(1, 12), "lora_alpha": draw.choice([4, 8, 16]), "lora_bias": True, **targets(draw, spec)}
    if draw.random() < 0.3:
        settings["bias"] = draw.choice(["all", "lora_only"])
    return {**settings, "use_rslora": draw.random() < 0.3, "init_lora_weights": draw.random() < 0.5}


def oft(draw, spec):
    settings = {"oft_block_size": draw.choice([2, 4, 8, 8, 10, 16]), "num_cayley_neumann_terms": draw.randint(2, 7), **targets(draw, spec)}
    if draw.random() < 0.3:
        settings["bias"] = draw.choice(["all", "oft_only"])
    return {**settings, "block_share": draw.random() < 0.3}


def activated(draw, spec):
    """LoRA that acts from one or two tokens on; model_cases puts them into some of the samples."""
    tokens = draw.sample(range(3, 59), draw.randint(1, 2))
    settings = {"r": draw.randint(1, 12), "lora_alpha": draw.choice([4, 8, 16]), "alora_invocation_tokens": tokens, **targets(draw, spec)}
    return {**settings, "use_rslora": draw.random() < 0.3}


KINDS = {"BIAS": biased, "ACTIVATED": activated, "MISS": miss, "HIRA": hira, "SHIRA": shira, "OFT": oft}


def settings_of(draw, kind, spec):
    settings = {"peft_type": {"BIAS": "LORA", "ACTIVATED": "LORA"}.get(kind, kind), **KINDS[kind](draw, spec)}
    saved = {"t5": "final_layer_norm", "gpt2": "ln_f"}.get(spec["model_type"], "norm")
    if draw.random() < 0.2:
        settings["modules_to_save"] = [saved]
    return settings


def scatter(folder, seed):
    """Makes every tensor of an adapter random, so that no gradient begins at zero."""
    path, g = folder / "adapter_model.safetensors", torch.Generator().manual_seed(seed)
    tensors = {n: t + 0.05 * torch.randn(t.shape, generator=g) if t.is_floating_point() else t for n, t in load_file(path).items()}
    mc.save_file(tensors, path)


def one(binary, kind, seed, out):
    draw = random.Random(f"{kind} {seed}")
    torch.manual_seed(seed)
    spec = model_spec(draw, kind, seed)
    spec["lora"] = settings_of(draw, kind, spec)
    case = {"kind": "lora", "batch_size": spec["batch"], "training": {
        "steps": draw.randint(3, 9), "learning_rate": draw.choice([3e-4, 1e-3]), "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8,
        "weight_decay": draw.choice([0.0, 0.01, 0.1]), "max_grad_norm": draw.choice([0.3, 1.0])}}
    base = out / "model"
    mc.write_model(mc.make_model(spec), spec, base)
    mc.make_adapter(spec, mc.load_model(spec, base), out / "adapter")
    scatter(out / "adapter", seed)
    rows = mc.make_samples(spec, 59)
    (out / "samples.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    config = interop.write_config(case, out, base, out)
    if spec["model_type"] == "t5":                   # its samples have two lengths
        run = json.loads(config.read_text())
        run["data"]["max_source_length"] = run["data"]["max_target_length"] = run["data"].pop("max_seq_length")
        config.write_text(json.dumps(run))
    interop.ft(binary, "train", "--config", config)
    losses = [r["loss"] for r in map(json.loads, open(out / "trained" / "log.jsonl")) if "loss" in r]

    theirs = peft.PeftModel.from_pretrained(mc.load_model(spec, base), out / "adapter", is_trainable=True).train()
    batches = [rows[i:i + spec["batch"]] for i in range(0, len(rows), spec["batch"])]
    want, _ = mc.train(theirs, batches, case["training"])
    told = f"{spec['model_type']} {json.dumps({k: v for k, v in spec['lora'].items() if k != 'peft_type'})}"
    figures = {"losses": max(abs(a - b) / b for a, b in zip(losses, want))} if len(losses) == len(want) else {"losses": float("inf")}
    names = [set(load_file(f / "adapter_model.safetensors")) for f in (out / "trained", out / "adapter")]
    if names[0] != names[1]:
        raise RuntimeError(f"tensors {sorted(names[0] ^ names[1])[:4]} are only in one of the files")
    ours = peft.PeftModel.from_pretrained(mc.load_model(spec, base), out / "trained").eval()
    mine, other = interop.logits(ours, rows), interop.logits(theirs.eval(), rows)
    figures["file"] = float((mine - other).abs().max() / other.abs().max().clamp_min(1))

    if "alora_invocation_tokens" in spec["lora"]:    # no weights compute the same
        return {**figures, "merge": 0.0}, told
    interop.ft(binary, "merge", "--model", base, "--adapter", out / "trained", "--output", out / "merged", "--dtype", "float32")
    merged = {n: p for n, p in ours.merge_and_unload().state_dict().items()}
    got = mc.auto_class(spec).from_pretrained(out / "merged", dtype=torch.float32).state_dict()
    figures["merge"] = max(float((got[n] - merged[n]).abs().max() / merged[n].abs().max().clamp_min(1e-30)) for n in got)
    return figures, told


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("ft", type=Path)
    a.add_argument("--kinds", default=",".join(KINDS))
    a.add_argument("--runs", type=int, default=100)
    a.add_argument("--first", type=int, default=0)
    a.add_argument("--write", type=Path, help="also write the summary to this file")
    a = a.parse_args()
    lines = [f"{interop.ft(a.ft, '--version').strip()}; " + ", ".join(f"{k} {v}" for k, v in mc.VERSIONS.items()), f"limits {LIMITS}"]
    bad = 0
    for kind in a.kinds.split(","):
        worst, agreed = dict.fromkeys(LIMITS, 0.0), 0
        for seed in range(a.first, a.first + a.runs):
            with tempfile.TemporaryDirectory(prefix="ft-adapters-") as folder:
                try:
                    figures, told = one(a.ft.resolve(), kind, seed, Path(folder))
                except Exception as error:           # a refusal, or a mistake: the run does not agree
                    figures, told = None, f"{type(error).__name__}: {error}"
            fine = figures is not None and all(figures[k] <= LIMITS[k] for k in LIMITS)
            agreed += fine
            if fine:
                worst = {k: max(worst[k], figures[k]) for k in LIMITS}
            else:
                print(kind, seed, figures, told, flush=True)
        bad += a.runs - agreed
        lines.append(f"{kind}: {agreed} of {a.runs} agree; largest differences " + ", ".join(f"{k} {v:.0e}" for k, v in worst.items()))
        print(lines[-1], flush=True)
    if a.write:
        a.write.write_text("\n".join(lines) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
