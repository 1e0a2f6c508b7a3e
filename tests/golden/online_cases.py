"""What make_ppo.py and make_rloo.py share: ft's run, whose answers Python trains on again."""
import json, subprocess, tempfile
from pathlib import Path

import torch

HERE = Path(__file__).parent
POLICY, SCORER, PROMPTS = HERE / "models/llama-gqa/model", HERE / "preference/reward/model", HERE / "ppo/prompts.jsonl"
ROWS, ACCUMULATION = 3, 2


def config(objective, steps):
    return {"model": {"model_name_or_path": str(POLICY)}, "finetuning_type": "full",
            "objective": {"reward_model_name_or_path": str(SCORER), "max_completion_length": 6, **objective},
            "data": {"datasets": [{"path": str(PROMPTS)}], "max_seq_length": 32, "shuffle": False},
            "training": {"output_dir": "out", "per_device_train_batch_size": ROWS, "learning_rate": 1e-3,
                         "gradient_accumulation_steps": ACCUMULATION, "max_steps": steps, "bf16": False,
                         "lr_scheduler_type": "constant", "weight_decay": 0, "max_grad_norm": 1, "adam_epsilon": 1e-5},
            "checkpointing": {"save_strategy": "no"}, "logging": {"logging_steps": 1, "progress": "none"}}


def answers_of(ft, run):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "run.json").write_text(json.dumps(run))
        subprocess.run([ft, "train", "--config", "run.json"], cwd=folder, check=True)
        rows = [json.loads(line) for line in open(Path(folder, "out/rollouts.jsonl"))]
    return [{k: r[k] for k in ("step", "prompt_ids", "completion_ids", "reward")} for r in rows]


def shake(m):
    g = torch.Generator().manual_seed(1)
    for p in m.parameters():
        p.data.mul_(1 + torch.randint(-1, 2, p.shape, generator=g) * 2.0**-23)
