#!/usr/bin/env python3
"""Trains models of random small configurations in ft and in transformers + PEFT, in float32, and compares every loss, gradient norm and weight.

    random_cases.py FT FOLDER [--families A,B] [--first SEED] [--count N]     (a Python with tests/golden/requirements.txt)

Appends a line for each case to FOLDER/results.jsonl; a case that is there is not run again. Bounds: losses 1e-5, norms 1e-4, weights' normalised squared
error 1e-8. A case beyond them also runs in transformers with float64, and its verdict says what that shows:
    tie        an expert was chosen by less than 2e-5 of its score: either choice is right
    rounding   ft is no further from float64 than a bound, or than three times the distance of transformers' float32
    refused    ft or transformers does not take the configuration
    miss       anything else
"""
import argparse
import copy
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/golden"))
import model_cases
import peft
import torch
import transformers
from safetensors.torch import load_file

import random_shapes

LOSS, NORM, WEIGHT, TIE, TIMES = 1e-5, 1e-4, 1e-8, 2e-5, 3
KINDS = {"tokens": ("AutoModelForCausalLM", "CAUSAL_LM"), "classify": ("AutoModelForSequenceClassification", "SEQ_CLS"),
         "embed": ("AutoModel", "FEATURE_EXTRACTION")}
F = torch.nn.functional


# ---- the case ------------------------------------------------------------------------------------------------------

def make_spec(family, seed):
    """The description of a case, from its family and a number alone."""
    draw = random.Random(f"{family} {seed}")
    kind = family if family in KINDS else "tokens"
    shape = random_shapes.FAMILIES[family](draw) if kind == "tokens" else draw.choice(random_shapes.HEADS)(draw)
    c, s = shape["config"], {"kind": kind, "seed": seed, "scale": draw.choice([2.0, 3.0, 4.0]), **shape}
    c.update(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    s.setdefault("aux", False)
    s["aux"] = s["aux"] and kind == "tokens"
    for key in () if s["aux"] else ("output_router_logits", "router_aux_loss_coef"):
        c.pop(key, None)
    if kind == "classify":
        c["problem_type"] = draw.choice(["single_label_classification", "multi_label_classification", "regression"])
        c["num_labels"] = draw.randint(2, 4) if c["problem_type"] != "regression" else draw.randint(1, 3)
    if kind == "embed":
        s["objective"] = {"pooling_mode": draw.choice(["lasttoken", "mean"]), "scale": draw.choice([7.0, 20.0])}
        if draw.random() < 0.3:
            s["objective"]["matryoshka_dims"] = [c["hidden_size"], c["hidden_size"] // 2]
    s["dtype"] = "f32"
    if draw.random() < 0.5:
        s["lora"] = {"r": draw.randint(1, 4), "lora_alpha": draw.choice([4, 8]), "use_rslora": draw.random() < 0.3}
        s["lora"]["target_modules"] = "all-linear" if draw.random() < 0.4 else draw.randint(1, 4)    # a number: so many of the linears' names
        s["lora"]["target_parameters"] = draw.random() < 0.3
        s["dtype"] = draw.choice(["f32", "bf16"])
    s["accumulation"] = 1 if s["aux"] else draw.choice([1, 1, 2])
    s["batch"] = draw.choice([2, 3, 4])
    s["packing"] = kind == "tokens" and not s["aux"] and draw.random() < 0.2
    s["steps"], s["rate"] = 6, draw.choice([1e-4, 1e-3, 3e-3])
    s["schedule"], s["decay"], s["clip"] = draw.choice(["cosine", "linear", "constant"]), draw.choice([0.0, 0.1]), draw.choice([0.5, 1.0])
    s["lengths"] = [draw.randint(3, 40) for _ in range(s["batch"] * s["accumulation"] * (1 if s["packing"] else s["steps"]))]
    return s


def disturb(model, s):
    """Nothing may be at its neutral value, beyond what make_model sees to."""
    g = torch.Generator().manual_seed(s["seed"] + 5)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("A_log"):               # states that last for one token, and for hundreds
                p.copy_(torch.linspace(-3.9, 1.1, len(p)) + 0.2 * torch.randn(p.shape, generator=g))
            elif name.endswith("dt_bias"):
                p.copy_(torch.randn(p.shape, generator=g) - 1)
            elif name.endswith("sinks"):
                p.copy_(torch.randn(p.shape, generator=g))
            elif s["model_type"] == "gemma4_text" and name.endswith(("q_norm.weight", "k_norm.weight")):   # nothing else scales the scores
                p.mul_(0.5)


def choose_targets(model, s):
    """Names for LoRA; in a mixture perhaps the experts' tensors too, which PEFT calls parameters."""
    lora, draw = s["lora"], random.Random(s["seed"])
    names = sorted({n.rsplit(".", 1)[-1] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)} - {"lm_head", "score"})
    if isinstance(lora["target_modules"], int):
        some = set(draw.sample(names, min(len(names), lora["target_modules"])))
        if some & {"gate_proj", "up_proj"}:          # PEFT takes both or neither, where transformers fuses those of experts
            some |= {"gate_proj", "up_proj"} & set(names)
        lora["target_modules"] = sorted(some)
    stacks = [n.split(".", 3)[3] for n, _ in model.named_parameters()
              if n.endswith(("experts.gate_up_proj", "experts.down_proj")) and n.startswith("model.layers")]
    wanted = lora.pop("target_parameters")
    if wanted and stacks and s["kind"] == "tokens":
        lora["target_parameters"] = sorted(set(stacks))


def make_rows(s, vocab):
    rows, g = model_cases.make_samples(s, vocab), random.Random(s["seed"] + 1)
    if s["kind"] == "tokens":
        return rows
    if s["kind"] == "classify":
        many, problem = s["config"]["num_labels"], s["config"]["problem_type"]
        label = {"single_label_classification": lambda: g.randrange(many),
                 "multi_label_classification": lambda: [float(g.random() < 0.5) for _ in range(many)],
                 "regression": lambda: round(g.random(), 3) if many == 1 else [round(g.random(), 3) for _ in range(many)]}[problem]
        return [{"input_ids": r["input_ids"], "label": label()} for r in rows]
    text = lambda ids: [3 + (i * 5 + g.randrange(3)) % (vocab - 3) for i in ids][:g.randint(2, 30)]
    negatives = g.random() < 0.5
    return [{"anchor_ids": r["input_ids"], "positive_ids": text(r["input_ids"]), **({"negative_ids": text(r["input_ids"])} if negatives else {})} for r in rows]


# ---- transformers --------------------------------------------------------------------------------------------------

def load(s, folder, dtype=torch.float32):
    cls = getattr(transformers, KINDS[s["kind"]][0])
    model = cls.from_pretrained(folder / "model", dtype=dtype, attn_implementation="eager")
    if s["model_type"] in model_cases.WITH_EXPERTS:
        model.set_experts_implementation("eager")
    if "lora" in s:
        model = peft.PeftModel.from_pretrained(model, folder / "start", is_trainable=True)
        for p in model.parameters():
            if p.requires_grad:
                p.data = p.data.to(dtype)
    return model.train()


def padded(texts):
    longest = max(map(len, texts))
    return {"input_ids": torch.tensor([t + [0] * (longest - len(t)) for t in texts]),
            "attention_mask": torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t in texts])}


def token_loss(model, rows, s):
    """Sum over targets, their number, and the routers' loss times that number."""
    inputs, labels = model_cases.pad(rows)
    out = model(**inputs, use_cache=False)
    target = labels[:, 1:].reshape(-1)
    logits = out.logits[:, :-1].reshape(-1, out.logits.shape[-1])
    total, count = F.cross_entropy(logits, target, ignore_index=-100, reduction="sum"), int((target != -100).sum())
    return (total + count * s["config"]["router_aux_loss_coef"] * out.aux_loss if s["aux"] else total), count


def head_loss(model, rows, s):
    labels = torch.tensor([r["label"] for r in rows])
    wide = labels if labels.dtype == torch.int64 else labels.to(next(model.parameters()).dtype)
    return model(**padded([r["input_ids"] for r in rows]), labels=wide, use_cache=False).loss * len(rows), len(rows)


def embed_loss(model, rows, s):
    """sentence-transformers' MultipleNegativesRankingLoss, summed over columns as MatryoshkaLoss does."""
    def embed(key):
        texts = padded([r[key] for r in rows])
        states, mask = model(**texts, use_cache=False).last_hidden_state, texts["attention_mask"]
        if s["objective"]["pooling_mode"] == "mean":
            return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return states[torch.arange(len(rows)), mask.sum(1) - 1]
    anchors, *documents = [embed(k) for k in ("anchor_ids", "positive_ids", "negative_ids") if k in rows[0]]
    documents, loss = torch.cat(documents), 0
    for d in s["objective"].get("matryoshka_dims", [anchors.shape[1]]):
        scores = s["objective"]["scale"] * F.normalize(anchors[:, :d], dim=1) @ F.normalize(documents[:, :d], dim=1).T
        loss = loss + F.cross_entropy(scores, torch.arange(len(rows)))
    return loss * len(rows), len(rows)


LOSSES = {"tokens": token_loss, "classify": head_loss, "embed": embed_loss}


class Leads:
    """Notes by how little an expert was chosen, in scores: a near tie may fall the other way in a program that is as right."""

    def __init__(self, model):
        self.least = float("inf")
        for m in model.modules():
            kind = type(m).__name__
            if kind.endswith("TopKRouter") and hasattr(m, "top_k"):
                m.register_forward_hook(lambda m, _, out: self.look(m.top_k, out[0]))
            elif kind.endswith("TopkRouter"):
                m.register_forward_hook(self.grouped)
            elif kind == "Gemma4TextRouter":
                m.register_forward_hook(lambda m, _, out: self.look(m.config.top_k_experts, out[0].log()))

    def look(self, k, scores):
        if k < scores.shape[-1]:
            v = scores.detach().sort(dim=-1, descending=True).values
            gaps = v[:, k - 1] - v[:, k]
            self.least = min(self.least, float(gaps[gaps.isfinite()].min()) if gaps.isfinite().any() else self.least)

    def grouped(self, m, _, out):
        bias = getattr(m, "e_score_correction_bias", None)
        score = out[0].softmax(-1) if bias is None else out[0].sigmoid() + bias
        groups = getattr(m, "num_group", None) or 1
        if groups > 1:
            apart = score.unflatten(-1, (groups, -1))
            worth = apart.amax(-1) if bias is None else apart.topk(2, -1).values.sum(-1)
            self.look(m.topk_group, worth)
            kept = torch.zeros_like(worth).scatter(1, worth.topk(m.topk_group, -1).indices, 1)[..., None]
            score = apart.masked_fill(kept == 0, float("-inf")).flatten(1)
        self.look(m.top_k, score)


def train(model, rows, s):
    """Losses, norms and the trained tensors by the names of their file."""
    params, decays = {n: p for n, p in model.named_parameters() if p.requires_grad}, model_cases.decayed(model)
    file_name = lambda n: model_cases.file_name(n, model)
    groups = [{"params": [p for n, p in params.items() if (file_name(n) in decays) is d], "weight_decay": s["decay"] * d} for d in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=s["rate"], eps=1e-8)
    schedule = transformers.get_scheduler(s["schedule"], optimizer, 0, s["steps"])
    losses, norms, leads, at = [], [], Leads(model), 0
    for _ in range(s["steps"]):
        total = count = 0
        for _ in range(s["accumulation"]):
            micro = [rows[(at + i) % len(rows)] for i in range(s["batch"])]
            at += s["batch"]
            parts = [[r] for r in micro] if s["packing"] else [micro]
            for part in parts:
                loss, n = LOSSES[s["kind"]](model, part, s)
                loss.backward()
                total, count = total + float(loss.detach()), count + n
        for p in params.values():
            if p.grad is not None:
                p.grad /= count
        norms.append(float(torch.nn.utils.clip_grad_norm_(list(params.values()), s["clip"])))
        losses.append(total / count)
        optimizer.step(), schedule.step(), optimizer.zero_grad()
    with tempfile.TemporaryDirectory() as place:
        model.save_pretrained(place)
        file = Path(place) / ("adapter_model.safetensors" if "lora" in s else "model.safetensors")
        return losses, norms, load_file(file), leads.least


def in_float64(s, folder, rows):
    """The same with float64 wherever a layer asks for float32. Angles of positions stay float32, as their definition is."""
    wide = lambda x: torch.float64 if x is torch.float32 else x
    to, as_type, as_float, softmax = torch.Tensor.to, torch.Tensor.type, torch.Tensor.float, F.softmax
    double = lambda t: t.dtype is torch.float64
    torch.Tensor.to = lambda t, *a, **k: to(t, *map(wide, a), **{n: wide(v) for n, v in k.items()}) if double(t) else to(t, *a, **k)
    torch.Tensor.type = lambda t, *a, **k: as_type(t, *map(wide, a), **k) if double(t) else as_type(t, *a, **k)
    torch.Tensor.float = lambda t: t if double(t) else as_float(t)
    F.softmax = lambda t, *a, dtype=None, **k: softmax(t, *a, dtype=wide(dtype) if double(t) else dtype, **k)
    try:
        model = load(s, folder, torch.float64)
        for n, t in [*model.named_parameters(), *model.named_buffers()]:
            if t.dtype is torch.float32 and "inv_freq" not in n:     # routers that transformers keeps in float32
                t.data = t.data.to(torch.float64)
        return train(model, rows, s)
    finally:
        torch.Tensor.to, torch.Tensor.type, torch.Tensor.float, F.softmax = to, as_type, as_float, softmax


# ---- ft ------------------------------------------------------------------------------------------------------------

def run_ft(ft, s, folder):
    packed = len(s["lengths"]) if s["packing"] else s["batch"]
    accumulation = 1 if s["packing"] else s["accumulation"]
    data = {"datasets": [{"path": "train.jsonl", "type": "contrast_tokenized" if s["kind"] == "embed" else "tokenized"}],
            "max_seq_length": 2048 if s["packing"] else 64, "shuffle": False, **({"packing": True} if s["packing"] else {})}
    config = {"model": {"model_name_or_path": "model"}, "data": data,
              "training": {"output_dir": "out", "per_device_train_batch_size": packed, "gradient_accumulation_steps": accumulation, "max_steps": s["steps"],
                           "learning_rate": s["rate"], "lr_scheduler_type": s["schedule"], "warmup_steps": 0, "weight_decay": s["decay"],
                           "max_grad_norm": s["clip"], "bf16": False},
              "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"},
              **({"lora": {"adapter_name_or_path": "start"}} if "lora" in s else {"finetuning_type": "full"})}
    if s["kind"] != "tokens":
        config["objective"] = {"type": s["kind"], **s.get("objective", {})}
    (folder / "run.json").write_text(json.dumps(config, indent=1))
    done = subprocess.run([ft, "train", "--config", "run.json"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:])
    log = [row for row in map(json.loads, open(folder / "out/log.jsonl")) if "loss" in row]
    file = "adapter_model.safetensors" if "lora" in s else "model.safetensors"
    tensors = load_file(folder / "out" / file)
    if s["kind"] == "embed" and "lora" not in s:     # AutoModel reads names with the prefix of the whole model, too
        tensors = {n.removeprefix("model."): t for n, t in tensors.items()}
    return [r["loss"] for r in log], [r["grad_norm"] for r in log], tensors


# ---- comparing -----------------------------------------------------------------------------------------------------

def compare(a, b):
    """{figure: distance}: the largest of losses and of norms, and every weight's normalised squared error."""
    ratio = lambda x, y: max(abs(p - q) / max(abs(q), 1e-12) for p, q in zip(x, y, strict=True))
    out = {"losses": ratio(a[0], b[0]), "norms": ratio(a[1], b[1])}
    for name in sorted(set(a[2]) ^ set(b[2])):
        out["only one has " + name] = float("inf")
    out.update({n: model_cases.nmse(a[2][n], b[2][n]) for n in sorted(set(a[2]) & set(b[2]))})
    return out


def bound(name):
    return {"losses": LOSS, "norms": NORM}.get(name, WEIGHT)


def judge(ours, theirs, s, folder, rows):
    figures = compare(ours, theirs)
    beyond = {n: v for n, v in figures.items() if not v <= bound(n)}
    weights = [v for n, v in figures.items() if n not in ("losses", "norms")]
    result = {"losses": figures["losses"], "norms": figures["norms"], "weights": max(weights, default=0)}
    if not beyond:
        return {"verdict": "agrees", **result}
    exact = in_float64(s, folder, rows)
    us, them = compare(ours, exact), compare(theirs, exact)
    result["beyond"] = {n: [v, us.get(n), them.get(n)] for n, v in beyond.items()}
    result["lead"] = min(theirs[3], exact[3])
    root = lambda n, v: v if n in ("losses", "norms") else v ** 0.5
    fine = all(n in them and (us[n] <= bound(n) or root(n, us[n]) <= TIMES * root(n, them[n])) for n in beyond)
    return {"verdict": "rounding" if fine else "tie" if result["lead"] < TIE else "miss", **result}


def make_model(s, folder):
    """Writes the model, and for LoRA the adapter that both begin with."""
    torch.manual_seed(s["seed"])
    with AsClass(s):
        model = model_cases.make_model(s)
    disturb(model, s)
    model_cases.write_model(model, s, folder / "model")
    if "lora" not in s:
        return
    base = getattr(transformers, KINDS[s["kind"]][0]).from_pretrained(folder / "model", dtype=torch.float32)
    choose_targets(base, s)
    wrapped = peft.get_peft_model(base, peft.LoraConfig(task_type=KINDS[s["kind"]][1], **s["lora"]))
    g = torch.Generator().manual_seed(s["seed"] + 3)
    with torch.no_grad():
        for name, p in wrapped.named_parameters():
            if "lora_" in name:
                p.copy_((0.05 if "lora_B" in name else 0.3) * torch.randn(p.shape, generator=g))
            elif p.requires_grad:
                p.add_(0.02 * torch.randn(p.shape, generator=g))
    wrapped.save_pretrained(folder / "start")


class AsClass:
    """model_cases makes the class that the case's kind has."""

    def __init__(self, s):
        self.cls = getattr(transformers, KINDS[s["kind"]][0])

    def __enter__(self):
        self.before, model_cases.auto_class = model_cases.auto_class, lambda spec: self.cls

    def __exit__(self, *_):
        model_cases.auto_class = self.before


def run_case(ft, family, seed, top):
    s, folder = make_spec(family, seed), top / f"{family}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    result = {"family": family, "seed": seed, "what": {k: copy.deepcopy(v) for k, v in s.items() if k != "lengths"}}
    try:
        make_model(s, folder)
    except Exception as e:                           # a configuration that transformers does not take
        return {**result, "verdict": "refused", "by": "transformers", "why": f"{type(e).__name__}: {e}"[:300]}
    rows = make_rows(s, s["config"]["vocab_size"])
    (folder / "train.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    try:
        ours = run_ft(ft, s, folder)
    except RuntimeError as e:
        return {**result, "verdict": "refused", "by": "ft", "why": str(e)}
    try:
        theirs = train(load(s, folder), rows, s)
    except RuntimeError as e:
        return {**result, "verdict": "refused", "by": "transformers", "why": str(e)[:300]}
    result.update(judge(ours, theirs, s, folder, rows))
    if result["verdict"] in ("agrees", "rounding"):
        shutil.rmtree(folder)
    return result


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("ft", type=Path)
    a.add_argument("folder", type=Path)
    a.add_argument("--families", default=",".join([*random_shapes.FAMILIES, "classify", "embed"]))
    a.add_argument("--first", type=int, default=0)
    a.add_argument("--count", type=int, default=100)
    a = a.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    path = a.folder / "results.jsonl"
    there = {(r["family"], r["seed"]) for r in map(json.loads, open(path))} if path.exists() else set()
    for seed in range(a.first, a.first + a.count):
        for family in a.families.split(","):
            if (family, seed) in there:
                continue
            result = run_case(a.ft.resolve(), family, seed, a.folder)
            with open(path, "a") as f:
                f.write(json.dumps(result) + "\n")
            print(family, seed, result["verdict"], result.get("why", result.get("beyond", "")), flush=True)


main()
