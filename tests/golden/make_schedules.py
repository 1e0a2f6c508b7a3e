#!/usr/bin/env python3
"""Makes schedules.json (learning rates of transformers', torch's and DeepSpeed's schedules, step by step) and loss_scales.json (scales of
DeepSpeed's DynamicLossScaler under overflows).

    make_schedules.py        (a Python with requirements.txt; DS_BUILD_OPS=0 pip install deepspeed==0.19.8)

DeepSpeed's schedules are stepped as its engine steps them: after the optimizer, from iteration -1."""
import json
import logging
import math
import random
from pathlib import Path

import deepspeed
import torch
import transformers
from deepspeed import comm
from deepspeed.runtime import lr_schedules
from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler

HERE, STEPS, RATE = Path(__file__).parent, 40, 3e-4
VERSIONS = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "deepspeed": deepspeed.__version__}
WARMUPS = (0, 1, 7, STEPS - 1)

# Each with every warm-up.
TRANSFORMERS = [(name, {}) for name in ("linear", "cosine", "constant", "constant_with_warmup", "polynomial", "inverse_sqrt", "cosine_with_restarts")]
TRANSFORMERS += [("cosine", {"num_cycles": 1.3}), ("cosine_with_restarts", {"num_cycles": 3}),
                 ("cosine_with_min_lr", {"min_lr_rate": 0.0}), ("cosine_with_min_lr", {"min_lr_rate": 0.5}),
                 ("cosine_with_min_lr", {"min_lr": 2e-5, "num_cycles": 0.8}),
                 ("cosine_warmup_with_min_lr", {"min_lr_rate": 0.1}), ("cosine_warmup_with_min_lr", {"min_lr": 1e-5, "warmup_lr_rate": 0.2, "num_cycles": 0.7}),
                 ("polynomial", {"lr_end": 3e-5, "power": 2.5}), ("inverse_sqrt", {"timescale": 11}),
                 ("warmup_stable_decay", {"num_decay_steps": 10}), ("warmup_stable_decay", {"num_decay_steps": 35}),
                 ("warmup_stable_decay", {"num_decay_steps": 12, "num_stable_steps": 9, "warmup_type": "1-sqrt", "decay_type": "linear", "min_lr_ratio": 0.1}),
                 ("warmup_stable_decay", {"num_decay_steps": 8, "warmup_type": "cosine", "decay_type": "1-sqrt", "min_lr_ratio": 0.05}),
                 ("warmup_stable_decay", {"num_decay_steps": 9, "num_cycles": 1.2})]

MULTI_STEP = [{"milestones": [10, 25]}, {"milestones": [1, 2, 39], "gamma": 0.5}]

CYCLE = {"cycle_min_lr": 1e-5, "cycle_max_lr": 2e-4}
DEEPSPEED = [("WarmupLR", more) for more in (
    {}, {"warmup_num_steps": 1}, {"warmup_num_steps": 2}, {"warmup_num_steps": 9, "warmup_type": "linear"},
    {"warmup_min_lr": 1e-5, "warmup_max_lr": 2e-3, "warmup_num_steps": 17})]
DEEPSPEED += [("WarmupDecayLR", more) for more in (
    {"total_num_steps": 40, "warmup_num_steps": 8}, {"total_num_steps": 25, "warmup_num_steps": 5, "warmup_type": "linear", "warmup_min_lr": 2e-5},
    {"total_num_steps": 6, "warmup_num_steps": 10, "warmup_max_lr": 3e-4})]
DEEPSPEED += [("WarmupCosineLR", more) for more in (
    {"total_num_steps": 40, "warmup_num_steps": 8}, {"total_num_steps": 30, "warmup_num_steps": 6, "warmup_min_ratio": 0.2, "cos_min_ratio": 0.01, "warmup_type": "linear"},
    {"total_num_steps": 5, "warmup_num_steps": 9})]
DEEPSPEED += [("OneCycle", {**CYCLE, **more}) for more in (
    {"cycle_first_step_size": 10}, {"cycle_first_step_size": 4, "cycle_second_step_size": 9, "decay_step_size": 3, "decay_lr_rate": 0.5, "decay_mom_rate": 0.004},
    {"cycle_first_step_size": 12, "cycle_second_step_size": 20, "cycle_first_stair_count": 3, "cycle_second_stair_count": 5},
    {"cycle_first_step_size": 7, "cycle_first_stair_count": 4, "decay_step_size": 2, "decay_mom_rate": 0.001, "cycle_min_mom": 0.7, "cycle_max_mom": 0.95},
    {"cycle_first_step_size": 15, "cycle_momentum": False, "decay_lr_rate": 1.0}, {})]
DEEPSPEED += [("LRRangeTest", more) for more in (
    {}, {"lr_range_test_min_lr": 1e-5, "lr_range_test_step_size": 7, "lr_range_test_step_rate": 2.5},
    {"lr_range_test_min_lr": 1e-5, "lr_range_test_step_size": 6, "lr_range_test_step_rate": 0.5, "lr_range_test_staircase": True})]


def rates(optimizer, schedule):
    lines = []
    for _ in range(STEPS):
        group = optimizer.param_groups[0]
        lines.append((group["lr"], list(group["betas"])))
        optimizer.step()
        schedule.step()
    return lines


def row(name, kwargs, warmup, make):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    used = rates(optimizer, make(optimizer))
    out = {"lr_scheduler_type": name, "lr_scheduler_kwargs": kwargs, "warmup_steps": warmup, "learning_rate": RATE, "rates": [r for r, _ in used]}
    if any(b != [0.9, 0.999] for _, b in used):
        out["betas"] = [b for _, b in used]
    return out


PLATEAUS = [{}, {"patience": 0, "factor": 0.5}, {"patience": 1, "factor": 0.3, "cooldown": 2, "min_lr": 5e-5}, {"patience": 2, "mode": "max"},
            {"patience": 1, "threshold": 0.05, "threshold_mode": "abs"}, {"patience": 0, "threshold": 0.02, "mode": "max", "threshold_mode": "abs", "factor": 0.7, "eps": 2e-5},
            {"patience": 1, "threshold": 0.05, "factor": 0.9}]


GREEDY = [{"patience": 1, "min_lr": 1e-5}, {"patience": 0, "factor": 0.5, "min_lr": 2e-5, "max_lr": 6e-4, "reset_start": 1},
          {"patience": 1, "factor": 0.8, "min_lr": 1e-6, "cooldown": 2, "warmup": 1, "threshold": 0.01, "threshold_mode": "rel"},
          {"patience": 0, "mode": "max", "min_lr": 0.0, "smooth": True, "window_size": 4, "eps": 2e-5, "factor": 0.9}, {"min_lr": 1e-4, "patience": 3}, {}]


def plateau(kwargs, seed, name="reduce_lr_on_plateau"):
    """The rate after each evaluation."""
    r, used = random.Random(seed), []
    figures = [float("nan") if i == 9 and not kwargs.get("smooth") else 2 + (-1 if kwargs.get("mode") != "max" else 1) * 0.02 * min(i, 12) + r.gauss(0, 0.02) for i in range(STEPS)]
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=RATE)
    schedule = transformers.get_scheduler(name, optimizer, scheduler_specific_kwargs=dict(kwargs))
    for figure in figures:
        schedule.step(figure)
        used.append(optimizer.param_groups[0]["lr"])
    return {"lr_scheduler_kwargs": kwargs, "learning_rate": RATE, "figures": [None if math.isnan(f) else f for f in figures], "rates": used}


def scales():
    rows = []
    for seed in range(40):
        r = random.Random(seed)
        how = {"initial_scale_power": r.randint(3, 20), "loss_scale_window": r.choice((1, 2, 3, 8)), "hysteresis": r.randint(1, 4),
               "consecutive_hysteresis": bool(seed % 2), "min_loss_scale": r.choice((1, 2, 16))}
        if 2 ** how["initial_scale_power"] <= how["min_loss_scale"]:
            how["initial_scale_power"] += 8
        scaler = DynamicLossScaler(2.0 ** how["initial_scale_power"], how["loss_scale_window"], how["min_loss_scale"], how["hysteresis"],
                                   how["consecutive_hysteresis"])
        overflows, used = "", []
        for _ in range(80):
            overflows += "o" if r.random() < (0.2, 0.5, 0.8)[seed % 3] else "."
            try:
                scaler.update_scale(overflows[-1] == "o")
            except Exception:
                used.append(None)  # cannot fall further
                break
            used.append(scaler.cur_scale)
        rows.append({**how, "overflows": overflows, "scales": used})
    return rows


def write(name, **lists):
    parts = [f'"{key}": [\n ' + ",\n ".join(json.dumps(r) for r in rows) + "\n]" for key, rows in lists.items()]
    (HERE / name).write_text(f'{{"made_with": {json.dumps(VERSIONS)},\n' + ",\n".join(parts) + "}\n")


def main():
    logging.disable(logging.WARNING)
    comm.get_rank = lambda group=None: 0
    rows = [row(name, kwargs, w, lambda o: transformers.get_scheduler(name, o, w, STEPS, scheduler_specific_kwargs=dict(kwargs)))
            for name, kwargs in TRANSFORMERS for w in WARMUPS]
    rows += [row("multi_step", kwargs, 0, lambda o: torch.optim.lr_scheduler.MultiStepLR(o, **kwargs)) for kwargs in MULTI_STEP]
    rows += [row(name, kwargs, 0, lambda o: getattr(lr_schedules, name)(o, **kwargs)) for name, kwargs in DEEPSPEED]
    write("schedules.json", schedules=rows, plateaus=[plateau(kwargs, seed) for seed, kwargs in enumerate(PLATEAUS)],
          greedy=[plateau(kwargs, seed, "greedy") for seed, kwargs in enumerate(GREEDY)])
    write("loss_scales.json", loss_scales=scales())


main()
