"""Tiny random models of every supported kind: logits, loss, every gradient, 50 steps of AdamW, by transformers and PEFT.

The oracle is f32 with eager attention on one thread. Each case also says how far PyTorch is from itself (sdpa attention
instead of eager), so that a test's tolerance can be seen to be reasonable, and where `bf16` is asked for, how far its own
bf16 run is from the f32 one.
"""
import json
import os
import shutil
import zlib

os.environ["HF_HUB_OFFLINE"] = "1"
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
VERSIONS = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "peft": peft.__version__}
STEPS = 50
SEQ2SEQ = ("t5", "mt5")
WITH_EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe", "olmoe", "qwen3_next", "qwen3_5_moe_text", "gemma4_text", "deepseek_v2", "deepseek_v3",
                "glm4_moe_lite", "glm4_moe", "gpt_oss")
IN_STACKS = ("gpt_oss",)                             # the files have the experts in stacks too
# In f32 PyTorch's gradients of the delta rule's decays are good to 4e-4 only: they are differences of large sums.
WITH_STATES = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
IGNORED = -100


# ---- making the inputs ---------------------------------------------------------------------------------------------

def auto_class(spec):
    return transformers.AutoModelForSeq2SeqLM if spec["model_type"] in SEQ2SEQ else transformers.AutoModelForCausalLM


def make_model(spec):
    """A random model in which nothing is at a neutral value: norms and biases get noise, matrices are scaled up."""
    torch.manual_seed(spec["seed"])
    config = transformers.AutoConfig.for_model(spec["model_type"], **spec["config"])
    model = auto_class(spec).from_config(config, dtype=torch.float32, attn_implementation="eager")
    noise = torch.Generator().manual_seed(spec["seed"] + 1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim < 2 or name.endswith("_bias"):
                p.add_(0.1 * torch.randn(p.shape, generator=noise))
            else:
                p.mul_(spec.get("scale", 6.0))
        for name, b in model.named_buffers():
            if name.endswith("layer_scalar"):       # Gemma 4's, which is not trained
                b.mul_(0.7 + 0.6 * torch.rand(b.shape, generator=noise))
            if name.endswith("e_score_correction_bias"):
                b.add_(0.1 * torch.randn(b.shape, generator=noise))
        if "head_scale" in spec:                     # T5's own head begins so large that training is chaotic
            model.lm_head.weight.mul_(spec["head_scale"])
    return model


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n")


def write_model(model, spec, folder):
    model.to(DTYPES[spec.get("dtype", "bf16")]).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if spec.get("v4"):                               # rope_theta and rope_scaling, as transformers 4 wrote them
        rope = config.pop("rope_parameters", None) or {}
        if spec["model_type"] not in SEQ2SEQ:
            config["rope_theta"] = rope.pop("rope_theta", 10000.0)
            kind = rope.pop("rope_type", "default")
            config["rope_scaling"] = None if kind == "default" else {spec.get("v4_key", "rope_type"): kind, **rope}
        config["torch_dtype"] = config.pop("dtype", "float32")
        config["transformers_version"] = "4.44.0"
    for key in spec.get("config_without", []):       # what older writers left to the default
        config.pop(key, None)
    config.update(spec.get("config_with", {}))
    write_json(path, config)


def load_model(spec, folder, attention="eager", dtype=torch.float32):
    model = auto_class(spec).from_pretrained(folder, dtype=dtype, attn_implementation=attention)
    if spec["model_type"] in WITH_EXPERTS:  # its grouped products want widths of whole 16 bytes
        model.set_experts_implementation("eager")
    return model


def make_samples(spec, vocab):
    """Arithmetic progressions with noise (something to learn). The head of a sample and single tokens are not targets."""
    g = torch.Generator().manual_seed(spec["seed"] + 2)
    rows = []
    for n in spec["lengths"]:
        start, stride = (int(x) for x in torch.randint(1, vocab, (2,), generator=g))
        ids = [3 + (start + stride * k) % (vocab - 3) for k in range(n)]
        noise, hole = torch.rand(n, generator=g), torch.rand(n, generator=g)
        ids = [int(torch.randint(3, vocab, (1,), generator=g)) if noise[k] < 0.2 else ids[k] for k in range(n)]
        labels = [IGNORED if k < 0.3 * n or hole[k] < 0.1 else ids[k] for k in range(n)]
        labels[-1] = ids[-1]
        if spec["model_type"] in SEQ2SEQ:            # the target: two thirds of the source, backwards, with an end
            labels = ids[:: -1][: 1 + 2 * n // 3] + [1]
            labels = [IGNORED if hole[k % n] < 0.1 and k + 1 < len(labels) else x for k, x in enumerate(labels)]
        rows.append({"input_ids": ids, "labels": labels})
    invocation = spec.get("lora", {}).get("alora_invocation_tokens")
    for number, row in enumerate(rows if invocation else []):
        invoke(row, number, invocation)
    return rows


def invoke(row, number, tokens):
    """Puts the tokens that invoke an adapter into a row: not at all, once, or twice."""
    n, size = len(row["input_ids"]), len(tokens)
    for place in ([n // 2], [], [1, n // 3], [0], [n - size])[number % 5]:
        row["input_ids"][place:place + size] = tokens
    row["labels"] = [IGNORED if old == IGNORED else new for old, new in zip(row["labels"], row["input_ids"])]


def adapter_config(task, settings):
    """The configuration of an adapter: LoRA, or the kind that `peft_type` names."""
    kinds = {"LORA": peft.LoraConfig, "MISS": peft.MissConfig, "HIRA": peft.HiraConfig, "SHIRA": peft.ShiraConfig, "OFT": peft.OFTConfig}
    rest = {key: value for key, value in settings.items() if key != "peft_type"}
    return kinds[settings.get("peft_type", "LORA")](task_type=task, **rest)


def make_adapter(spec, model, folder):
    """A PEFT adapter whose B is not zero, written to `folder`."""
    task = "SEQ_2_SEQ_LM" if spec["model_type"] in SEQ2SEQ else "CAUSAL_LM"
    config = adapter_config(task, spec["lora"])
    wrapped = peft.get_peft_model(model, config)
    g = torch.Generator().manual_seed(spec["seed"] + 3)
    with torch.no_grad():
        for name, p in wrapped.named_parameters():
            if any(part in name for part in ("lora_B", "hira_B", "miss_block", "shira_weight", "oft_R")):
                p.copy_(0.05 * torch.randn(p.shape, generator=g))
            elif "lora_A" in name or "hira_A" in name:
                p.copy_(0.3 * torch.randn(p.shape, generator=g))
            elif p.requires_grad:                    # a module to save, a bias: away from the base's values
                p.add_(0.02 * torch.randn(p.shape, generator=g))
    wrapped.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    text = json.loads(path.read_text())
    text["base_model_name_or_path"] = None           # a path of the machine that ran this
    for key, value in text.items():                  # PEFT writes sets in any order
        if isinstance(value, list):
            text[key] = sorted(value)
    path.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")


# ---- the computations ----------------------------------------------------------------------------------------------

def pad(rows):
    width = lambda key: max(len(r[key]) for r in rows)
    grid = lambda key, fill: torch.tensor([r[key] + [fill] * (width(key) - len(r[key])) for r in rows])
    mask = torch.tensor([[1] * len(r["input_ids"]) + [0] * (width("input_ids") - len(r["input_ids"])) for r in rows])
    return {"input_ids": grid("input_ids", 0), "attention_mask": mask}, grid("labels", IGNORED)


def forward(model, rows):
    """Logits (B, T, V); loss: the sum over target tokens divided by their number."""
    inputs, labels = pad(rows)
    if model.config.is_encoder_decoder:
        logits = model(**inputs, labels=labels, use_cache=False).logits
        flat = logits.reshape(-1, logits.shape[-1]).float()
        total = torch.nn.functional.cross_entropy(flat, labels.reshape(-1), ignore_index=IGNORED, reduction="sum")
        return logits, total / int((labels != IGNORED).sum())
    logits = model(**inputs, use_cache=False).logits
    target = labels[:, 1:].reshape(-1)
    flat = logits[:, :-1].reshape(-1, logits.shape[-1]).float()
    total = torch.nn.functional.cross_entropy(flat, target, ignore_index=IGNORED, reduction="sum")
    return logits, total / int((target != IGNORED).sum())


def file_name(name, model):
    """The name of a parameter in its file: without the adapter's name; GPT-NeoX's head has another there."""
    name = name.replace("lora_magnitude_vector.default.weight", "lora_magnitude_vector")
    name = name.replace(".modules_to_save.default", "").replace(".default", "")
    in_file = model.config.model_type == "gpt_neox" and not name.startswith("base_model.")
    return name.replace("lm_head", "embed_out") if in_file else name


def trained(model):
    return {file_name(n, model): p for n, p in model.named_parameters() if p.requires_grad}


def by_expert(named, model):
    """The same by the names of the files: transformers 5 has all experts of a layer in two parameters."""
    kind = model.config.model_type
    if kind not in WITH_EXPERTS or kind in IN_STACKS:
        return named
    wide, narrow = (("w1", "w3"), "w2") if kind == "mixtral" else (("gate_proj", "up_proj"), "down_proj")
    parts = {}
    for name, g in named.items():
        if kind == "mixtral" and "lora_" not in name:
            name = name.replace(".mlp.", ".block_sparse_moe.")
        module = name.rsplit(".", 1)[0]
        if name.endswith(".experts.gate_up_proj"):
            for e, both in enumerate(g):
                parts.update({f"{module}.{e}.{p}.weight": half.clone() for p, half in zip(wide, both.chunk(2))})
        elif name.endswith(".experts.down_proj"):
            parts.update({f"{module}.{e}.{narrow}.weight": own.clone() for e, own in enumerate(g)})
        else:
            parts[name] = g
    return parts


def gradients(model, rows):
    model.zero_grad()
    logits, loss = forward(model, rows)
    loss.backward()
    grads = {n: p.grad.float().clone() for n, p in trained(model).items()}
    return logits.detach().float(), float(loss.detach()), by_expert(grads, model)


def gradients_in_f64(load, rows):
    """The same by a model in f64, whose layers then do not convert to f32 either."""
    to, as_float = torch.Tensor.to, torch.Tensor.float
    wide = lambda x: torch.float64 if x is torch.float32 else x
    torch.Tensor.to = lambda self, *a, **k: to(self, *map(wide, a), **{n: wide(v) for n, v in k.items()})
    torch.Tensor.float = lambda self: self
    try:
        logits, loss, grads = gradients(load(dtype=torch.float64), rows)
    finally:
        torch.Tensor.to, torch.Tensor.float = to, as_float
    return logits.float(), loss, {n: g.float() for n, g in grads.items()}


def decayed(model):
    """Names of what AdamW decays: all but biases (T5's by distance too) and norm weights, as transformers' Trainer has it."""
    norms = tuple(n for n, m in model.named_modules() if "norm" in type(m).__name__.lower())
    return {file_name(n, model) for n, p in model.named_parameters()
            if p.requires_grad and not n.endswith("bias") and "attention_bias" not in n and n.rsplit(".", 1)[0] not in norms}


def train(model, batches, t):
    params, decays = trained(model), decayed(model)
    groups = [{"params": [p for n, p in params.items() if n in decays], "weight_decay": t["weight_decay"]},
              {"params": [p for n, p in params.items() if n not in decays], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=t["learning_rate"], betas=(t["adam_beta1"], t["adam_beta2"]), eps=t["adam_epsilon"])
    losses, norms = [], []
    for step in range(t["steps"]):
        _, loss = forward(model, batches[step % len(batches)])
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(list(params.values()), t["max_grad_norm"])))
        losses.append(float(loss.detach()))
        optimizer.step()
        optimizer.zero_grad()
    return losses, norms


# ---- one case ------------------------------------------------------------------------------------------------------

def nmse(got, want):
    return float(((got.double() - want.double()) ** 2).sum() / (want.double() ** 2).sum().clamp_min(1e-300))


def compare(got, want, rows):
    """How far one run's (logits, loss, gradients) are from another's."""
    real = [slice(0, r["rows"]) for r in rows]
    flat = lambda x: torch.cat([x[i, s].flatten() for i, s in enumerate(real)])
    every = lambda g: torch.cat([g[n].flatten() for n in sorted(g)])
    return {"logits_nmse": nmse(flat(got[0]), flat(want[0])), "loss": got[1],
            "gradients_nmse": nmse(every(got[2]), every(want[2])),
            "gradient_nmse": {n: nmse(got[2][n], want[2][n]) for n in sorted(want[2])}}


def in_bf16(load, how, batches, t, golden):
    """PyTorch's own bf16 run: `weights`: a bf16 model; `autocast`: f32 trained weights, products in bf16."""
    def run(work):
        if how == "weights":
            return work(load(dtype=torch.bfloat16))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return work(load())
    out = compare(run(lambda m: gradients(m, batches[0])), golden, batches[0])
    if how == "autocast":                            # bf16 weights cannot follow small updates
        out["losses"], out["grad_norms"] = run(lambda m: train(m, batches, t))
    return out


def make_case(spec, top):
    folder = top / "models" / spec["name"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if "model" in spec:
        base = (folder / spec["model"]).resolve()
    else:
        base = folder / "model"
        write_model(make_model(spec), spec, base)

    def load(attention="eager", dtype=torch.float32):
        model = load_model(spec, base, attention, dtype)
        if "lora" in spec:
            model = peft.PeftModel.from_pretrained(model, folder / "adapter", is_trainable=True)
        return model.train()

    if "lora" in spec:
        make_adapter(spec, load_model(spec, base), folder / "adapter")
    rows = make_samples(spec, load_model(spec, base).config.vocab_size)
    (folder / "samples.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    seq2seq = spec["model_type"] in SEQ2SEQ
    for r in rows:                                   # of the logits
        r["rows"] = len(r["labels" if seq2seq else "input_ids"])
    batches = [rows[i:i + spec["batch"]] for i in range(0, len(rows), spec["batch"])]
    t = {"optimizer": "adamw", "steps": STEPS, "learning_rate": 1e-3, "adam_beta1": 0.9, "adam_beta2": 0.999,
         "adam_epsilon": 1e-8, "weight_decay": 0.01, "max_grad_norm": 1.0, **spec.get("training", {})}

    golden = gradients_in_f64(load, batches[0]) if spec["model_type"] in WITH_STATES else gradients(load(), batches[0])
    if "lora" in spec:
        there = set(load_file(folder / "adapter" / "adapter_model.safetensors"))
        odd = {name for name in there ^ set(golden[2]) if not name.endswith(".shira_indices")}
        if odd:
            print("   trained but not saved, or saved but not trained:", sorted(odd)[:4], len(odd))
    losses, norms = train(load(), batches, t)
    # T5 has eager attention only, and sdpa has neither a cap of scores nor sinks
    in_f64 = seq2seq or load().config.model_type in ("gemma2", "gpt_oss")
    second = (lambda: load(dtype=torch.float64)) if in_f64 else (lambda: load("sdpa"))
    other = gradients(second(), batches[0])
    other_losses, _ = train(second(), batches, t)
    tensors = {f"logits.{i}": golden[0][i, :r["rows"]].contiguous() for i, r in enumerate(batches[0])}
    tensors.update({f"grad.{n}": g for n, g in golden[2].items()})
    save_file(tensors, folder / "expected.safetensors")
    itself = "pytorch_f64" if in_f64 else "pytorch_sdpa"
    case = {"what": spec["what"], "made_with": VERSIONS, "kind": "lora" if "lora" in spec else "full",
            "model": spec.get("model", "model"), "batch_size": spec["batch"], "training": t,
            "expected": {"loss": golden[1], "losses": losses, "grad_norms": norms},
            itself: {k: v for k, v in compare(other, golden, batches[0]).items() if k != "gradient_nmse"}}
    case[itself]["worst_loss_difference"] = max(abs(a - b) / b for a, b in zip(other_losses, losses))
    if spec.get("bf16"):
        case["bf16_factor"] = spec.get("bf16_factor", 1)      # relu: which signs flip is luck
        case["pytorch_bf16"] = {how: in_bf16(load, how, batches, t, golden) for how in ("weights", "autocast")}
    write_json(folder / "case.json", case)
    files = [f for f in folder.rglob("*") if f.is_file()]
    for f in files:
        f.chmod(0o644)
    size = sum(f.stat().st_size for f in files)
    print(f"{spec['name']:28} {losses[0]:.4f} -> {losses[-1]:.4f}  norm {norms[0]:.2f}  "
          f"itself {case[itself]['gradients_nmse']:.0e} {case[itself]['worst_loss_difference']:.0e}  {size // 1024} KB", flush=True)


def make_all(top, only):
    specs = json.loads((top / "cases.json").read_text())
    for case in specs["cases"]:
        if only.search(case["name"]):
            seed = zlib.crc32(case["name"].encode()) % 10000     # so that a new case changes no other
            family = "t5" if case.get("model_type") in SEQ2SEQ else ""
            config = {**specs[family + "_config" if family else "config"], **case.get("config", {})}
            make_case({"seed": seed, **specs["defaults"], **case, "config": config}, top)
