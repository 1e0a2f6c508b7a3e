"""What a training step is made of besides the model: positions, optimizers, clipping, LoRA's initial weights."""
import json
import math

import peft
import torch
import transformers
from safetensors.torch import save_file
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from ademamix import AdEMAMix
from model_cases import VERSIONS, write_json


# ---- rope.json -----------------------------------------------------------------------------------------------------

SHAPES = {
    "small": {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 128},
    "llama-2-7b": {"hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 4096},
    "llama-3.2-1b": {"hidden_size": 2048, "num_attention_heads": 32, "head_dim": 64, "max_position_embeddings": 131072},
}
LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
ROPES = [
    ("small", {}, {}, None), ("small", {"rope_theta": 500000.0}, {}, None), ("llama-2-7b", {}, {}, None),
    ("small", {}, {"rope_type": "linear", "factor": 4.0}, None), ("llama-2-7b", {}, {"rope_type": "linear", "factor": 2.5}, None),
    ("small", {}, {"rope_type": "dynamic", "factor": 2.0}, 100), ("small", {}, {"rope_type": "dynamic", "factor": 2.0}, 129),
    ("small", {}, {"rope_type": "dynamic", "factor": 4.0}, 300), ("llama-2-7b", {}, {"rope_type": "dynamic", "factor": 8.0}, 16384),
    ("llama-3.2-1b", {"rope_theta": 500000.0}, LLAMA3, None), ("llama-2-7b", {"rope_theta": 500000.0}, {**LLAMA3, "factor": 8.0}, None),
    ("small", {}, YARN, None), ("small", {}, {**YARN, "attention_factor": 0.9}, None),
    ("small", {}, {**YARN, "mscale": 0.8}, None), ("small", {}, {**YARN, "mscale": 0.8, "mscale_all_dim": 1.1}, None),
    ("small", {}, {**YARN, "beta_fast": 16.0, "beta_slow": 2.0}, None), ("small", {}, {**YARN, "truncate": False}, None),
    ("llama-2-7b", {}, {**YARN, "factor": 16.0, "original_max_position_embeddings": 4096}, None),
    ("llama-2-7b", {}, {**YARN, "factor": 16.0, "original_max_position_embeddings": 4096, "truncate": False, "beta_fast": 24.0}, None),
]


def ropes(top):
    """inv_freq and the factor on cos and sin, for both generations of the config."""
    rows = []
    for shape, base, kind, length in ROPES:
        theta = base.get("rope_theta", 10000.0)
        config = transformers.LlamaConfig(**SHAPES[shape], rope_parameters={"rope_type": "default", "rope_theta": theta, **kind})
        name = config.rope_parameters["rope_type"]
        if name == "default":
            make = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters
            inv_freq, scale = make(config)
        else:
            inv_freq, scale = ROPE_INIT_FUNCTIONS[name](config, None, **({"seq_len": torch.tensor(length)} if length else {}))
        rows.append({"config_v5": {**SHAPES[shape], "rope_parameters": {"rope_type": "default", "rope_theta": theta, **kind}},
                     "config_v4": {**SHAPES[shape], "rope_theta": theta, "rope_scaling": kind or None},
                     "length": length, "inv_freq": inv_freq.double().tolist(), "attention_scaling": float(scale)})
    lines = ",\n ".join(json.dumps(r) for r in rows)
    (top / "rope.json").write_text(f'{{"made_with": {json.dumps(VERSIONS)},\n"ropes": [\n {lines}\n]}}\n')


# ---- optimizers.json and .safetensors ------------------------------------------------------------------------------

OPTIMIZERS = {
    "adamw": {"learning_rate": 1e-2},
    "adamw-decay": {"learning_rate": 1e-2, "weight_decay": 0.1},
    "adamw-betas": {"learning_rate": 3e-3, "weight_decay": 0.01, "adam_beta1": 0.8, "adam_beta2": 0.95, "adam_epsilon": 1e-5},
    "adamw-clip": {"learning_rate": 1e-2, "weight_decay": 0.01, "max_grad_norm": 1.0},
    "adamw-schedule": {"learning_rate": 1e-2, "weight_decay": 0.1, "max_grad_norm": 0.3, "rates": [0.0, 0.005, 0.01, 0.0075, 0.005, 0.0025]},
    "adam-decay": {"learning_rate": 1e-2, "weight_decay": 0.1, "max_grad_norm": 1.0, "adam_w_mode": False},
    "sgd": {"learning_rate": 1e-1},
    "sgd-decay": {"learning_rate": 1e-1, "weight_decay": 0.1},
    "sgd-clip": {"learning_rate": 1e-1, "weight_decay": 0.01, "max_grad_norm": 1.0},
    "sgd-momentum": {"learning_rate": 1e-1, "weight_decay": 0.1, "optim_args": {"momentum": 0.9, "dampening": 0.3}},
    "sgd-nesterov": {"learning_rate": 1e-1, "weight_decay": 0.1, "max_grad_norm": 1.0, "optim_args": {"momentum": 0.9, "nesterov": True}},
    "adagrad": {"learning_rate": 1e-1, "weight_decay": 0.1},
    "adagrad-args": {"learning_rate": 1e-1, "max_grad_norm": 1.0, "optim_args": {"lr_decay": 0.05, "eps": 1e-3}},
    "rmsprop": {"learning_rate": 1e-2, "weight_decay": 0.1},
    "rmsprop-centered": {"learning_rate": 1e-2, "weight_decay": 0.1, "optim_args": {"alpha": 0.9, "eps": 1e-3, "centered": True}},
    "rmsprop-momentum": {"learning_rate": 1e-2, "max_grad_norm": 1.0, "optim_args": {"momentum": 0.8}},
    "rmsprop-both": {"learning_rate": 1e-2, "weight_decay": 0.1, "optim_args": {"alpha": 0.9, "momentum": 0.8, "centered": True}},
    "ademamix": {"learning_rate": 1e-2, "weight_decay": 0.1, "max_grad_norm": 1.0},
    "ademamix-warmups": {"learning_rate": 1e-2, "adam_beta2": 0.95, "adam_epsilon": 1e-5,
                         "optim_args": {"beta3": 0.99, "alpha": 8.0, "t_alpha": 5, "t_beta3": 4}},
    "adafactor": {"learning_rate": 1e-2, "weight_decay": 0.1},
    "adafactor-clip": {"learning_rate": 1e-2, "max_grad_norm": 1.0, "optim_args": {"clip_threshold": 0.5}},
    "adafactor-relative": {"learning_rate": 1e-2, "weight_decay": 0.1, "optim_args": {"scale_parameter": True, "relative_step": True, "warmup_init": True}},
    "muon": {"learning_rate": 1e-2, "weight_decay": 0.1},
    "muon-rms": {"learning_rate": 1e-2, "optim_args": {"momentum": 0.8, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}},
}
TORCH = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "rmsprop": torch.optim.RMSprop}


def optimizers(top, steps=6):
    """Two parameters (a matrix and a vector without decay) under fixed gradients of very different sizes."""
    g = torch.Generator().manual_seed(7)
    start = {"matrix": torch.randn(7, 11, generator=g), "vector": torch.randn(13, generator=g)}
    size = [1.0, 1e-3, 1e2, 0.0, 1e-6, 1.0]
    grads = [{n: s * torch.randn(p.shape, generator=g) for n, p in start.items()} for s in size]
    grads[5]["vector"][:6] = 0.0
    tensors = {f"start.{n}": p for n, p in start.items()}
    tensors |= {f"grad.{i}.{n}": p for i, row in enumerate(grads) for n, p in row.items()}
    rows = {}
    for name, spec in OPTIMIZERS.items():
        s = {"weight_decay": 0.0, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "max_grad_norm": 0.0, **spec}
        s.setdefault("rates", [s["learning_rate"]] * steps)
        params = {n: torch.nn.Parameter(p.clone()) for n, p in start.items()}
        groups = [{"params": [params["matrix"]], "weight_decay": s["weight_decay"]}, {"params": [params["vector"]], "weight_decay": 0.0}]
        kind, args = name.split("-")[0], s.pop("optim_args", {})
        adam, norms = {"betas": (s["adam_beta1"], s["adam_beta2"]), "eps": s["adam_epsilon"]}, []
        if kind == "muon":  # the vector has AdamW
            made = [torch.optim.Muon(groups[:1], lr=1.0, **args), torch.optim.AdamW(groups[1:], lr=1.0, **adam)]
        elif kind == "adafactor":
            fixed = {"lr": None if args.get("relative_step") else 1.0, "scale_parameter": False, "relative_step": False}
            made = [transformers.optimization.Adafactor(groups, **{**fixed, **args})]
        elif kind == "ademamix":
            made = [AdEMAMix(groups, betas=(*adam["betas"], args.get("beta3", 0.9999)), eps=adam["eps"], **{k: v for k, v in args.items() if k != "beta3"})]
        else:
            made = [TORCH[kind](groups, lr=1.0, **(adam if kind in ("adam", "adamw") else {}), **args)]
        for i in range(steps):
            for n, p in params.items():
                p.grad = grads[i][n].clone()
            norms.append(float(torch.nn.utils.clip_grad_norm_(list(params.values()), s["max_grad_norm"] or math.inf)))
            for optimizer in made:
                for group in optimizer.param_groups:
                    group["lr"] = s["rates"][i]
                optimizer.step()
            tensors |= {f"{name}.{i}.{n}": p.detach().clone() for n, p in params.items()}
        rows[name] = {"optim": "adamw" if kind == "adam" else kind, **s, "grad_norms": norms}
        if args:
            rows[name]["optim_args"] = ",".join(f"{k}={v}" for k, v in args.items())
    save_file(tensors, top / "optimizers.safetensors")
    write_json(top / "optimizers.json", {"made_with": VERSIONS, "no_decay": ["vector"], "steps": steps, "runs": rows})


# ---- lora_init.json ------------------------------------------------------------------------------------------------

def lora_init(top):
    """How PEFT draws lora_A: limits and moments of a large sample. B is zero, but for init_lora_weights = false."""
    rows = []
    for init in (True, "gaussian", False):
        for width, out, rank in ((64, 32, 4), (300, 128, 16)):
            values = {"lora_A": [], "lora_B": []}
            for seed in range(40):
                torch.manual_seed(seed)
                model = torch.nn.Sequential(torch.nn.Linear(width, out))
                wrapped = peft.get_peft_model(model, peft.LoraConfig(r=rank, target_modules=["0"], init_lora_weights=init))
                for n, p in wrapped.named_parameters():
                    for key in values:
                        if key in n:
                            values[key].append(p.detach().flatten().double())
            row = {"init_lora_weights": init, "in": width, "out": out, "r": rank}
            for key, v in values.items():
                v = torch.cat(v)
                row[key] = {"count": v.numel(), "mean": float(v.mean()), "std": float(v.std()), "largest": float(v.abs().max()),
                            "kurtosis": float((v ** 4).mean() / ((v ** 2).mean() ** 2).clamp_min(1e-300))}
            rows.append(row)
    write_json(top / "lora_init.json", {"made_with": VERSIONS, "inits": rows})


def make_all(top):
    ropes(top)
    optimizers(top)
    lora_init(top)
    for name in ("rope.json", "optimizers.json", "optimizers.safetensors", "lora_init.json"):
        (top / name).chmod(0o644)
        print(f"{name:28} {(top / name).stat().st_size // 1024} KB")
