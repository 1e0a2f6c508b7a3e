"""Makes long_steps.safetensors: a matrix after 200 steps of every optimizer, with a falling rate, by torch,
transformers and bitsandbytes (0.50.2); bitsandbytes' maps of 8-bit codes, and what its 8-bit optimizers leave as states.

    make_long_steps.py       (a Python with requirements.txt and bitsandbytes)

bitsandbytes rounds states on CPUs by a coarse table; here to the nearest code, as its CUDA and Triton kernels do."""
from pathlib import Path

import bitsandbytes as bnb
import numpy as np
import torch
from bitsandbytes.backends.cpu import ops
from safetensors.torch import save_file
from transformers.optimization import Adafactor

SHAPE, STEPS, RATE = (23, 27), 200, 1e-3  # the third block of 256 is short
ADAM = {"betas": (0.9, 0.99), "eps": 1e-8}
AVERAGES = {"betas": (*ADAM["betas"], 0.999), "eps": 1e-8, "alpha": 8.0}
FIXED = {"scale_parameter": False, "relative_step": False}

# By the name and the arguments that ft gives them.
RUNS = {
    "adamw": lambda p: torch.optim.AdamW(p, **ADAM),
    "lion": lambda p: bnb.optim.Lion(p, betas=ADAM["betas"]),
    "sgd": lambda p: torch.optim.SGD(p, lr=1),
    "sgd momentum=0.9,nesterov=True": lambda p: torch.optim.SGD(p, lr=1, momentum=0.9, nesterov=True),
    "sgd momentum=0.8,dampening=0.2": lambda p: torch.optim.SGD(p, lr=1, momentum=0.8, dampening=0.2),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "adagrad lr_decay=0.01,eps=1e-6": lambda p: torch.optim.Adagrad(p, lr_decay=0.01, eps=1e-6),
    "rmsprop": lambda p: torch.optim.RMSprop(p),
    "rmsprop alpha=0.9,momentum=0.8,centered=True": lambda p: torch.optim.RMSprop(p, alpha=0.9, momentum=0.8, centered=True),
    "adafactor": lambda p: Adafactor(p, lr=1, **FIXED),
    "adafactor scale_parameter=True,clip_threshold=0.5": lambda p: Adafactor(p, lr=1, scale_parameter=True, relative_step=False, clip_threshold=0.5),
    "muon": lambda p: torch.optim.Muon(p),
    "muon momentum=0.8,nesterov=False,adjust_lr_fn=match_rms_adamw":
        lambda p: torch.optim.Muon(p, momentum=0.8, nesterov=False, adjust_lr_fn="match_rms_adamw"),
    "adamw_8bit min_8bit_size=500": lambda p: bnb.optim.AdamW8bit(p, **ADAM, min_8bit_size=500),
    "ademamix beta3=0.999,alpha=8": lambda p: bnb.optim.AdEMAMix(p, **AVERAGES),
    "ademamix beta3=0.999,alpha=8,t_alpha=150,t_beta3=100": lambda p: bnb.optim.AdEMAMix(p, **AVERAGES, t_alpha=150, t_beta3=100),
    "ademamix_8bit min_8bit_size=500,beta3=0.999,alpha=8,t_alpha=150,t_beta3=100":
        lambda p: bnb.optim.AdEMAMix8bit(p, **AVERAGES, t_alpha=150, t_beta3=100, min_8bit_size=500),
    "lion_8bit min_8bit_size=500": lambda p: bnb.optim.Lion8bit(p, betas=ADAM["betas"], min_8bit_size=500),
}
AVERAGED = ("exp_avg_fast", "exp_avg_slow", "exp_avg_fast_absmax", "exp_avg_slow_absmax")  # as main() names them
STATES = {**{s: s for s in AVERAGED}, "exp_avg": "state1", "exp_avg_sq": "state2", "exp_avg_absmax": "absmax1", "exp_avg_sq_absmax": "absmax2"}


def nearest(a, code, absmax, out, blocksize):
    flat = torch.nn.functional.pad(a.reshape(-1), (0, -a.numel() % blocksize)).view(-1, blocksize)
    absmax.copy_(flat.abs().amax(1))
    x = flat / torch.where(absmax == 0, 1.0, absmax)[:, None]
    middles = (code[1:] + code[:-1]) / 2
    out.copy_(torch.searchsorted(middles, x.contiguous()).view(-1)[:a.numel()].view(a.shape))


ops._quant_blockwise_fp32_direct = nearest


def noise(step):
    """Exact in f32, so that the test makes the same: the weight's start is step 0, gradients are 1, 2, ..."""
    i = np.arange(SHAPE[0] * SHAPE[1], dtype=np.uint32)
    with np.errstate(over="ignore"):
        h = (i + np.uint32(1)) * np.uint32(2654435761) ^ np.uint32(step + 1) * np.uint32(2246822519)
        h ^= h >> np.uint32(15)
        h *= np.uint32(2246822507)
        h ^= h >> np.uint32(13)
    value = (h >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)
    value *= np.exp2(-(i % 11).astype(np.float32) - step % 3).astype(np.float32)
    value[i % 17 == 0] = 0
    return torch.from_numpy(value.reshape(SHAPE))


def main():
    tensors = {"map.signed": bnb.functional.create_dynamic_map(True), "map.unsigned": bnb.functional.create_dynamic_map(False)}
    for name, make in RUNS.items():
        p = torch.nn.Parameter(noise(0))
        optimizer = make([{"params": [p], "weight_decay": 0.1}])
        for step in range(1, STEPS + 1):
            p.grad = noise(step)
            if "8bit" not in name:  # where the last bit of a norm may decide about a code, and that about its block's
                torch.nn.utils.clip_grad_norm_([p], 1.0)
            for group in optimizer.param_groups:
                group["lr"] = RATE * (1 - (step - 1) / STEPS)
            optimizer.step()
        tensors[name] = p.detach()
        if "8bit" in name:
            state = optimizer.state[p]
            if "ademamix" in name:  # both means of the gradient in one
                for ours, theirs in {"": "state1", "_absmax": "absmax1"}.items():
                    for mean, values in zip(("fast", "slow"), state.pop(theirs)):
                        state[f"exp_avg_{mean}{ours}"] = values
            tensors |= {f"{name}.{ours}": state[theirs].flatten() for ours, theirs in STATES.items() if theirs in state}
    save_file({k: v.contiguous() for k, v in tensors.items()}, Path(__file__).with_name("long_steps.safetensors"))


main()
