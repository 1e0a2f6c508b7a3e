"""eva/<case>/: adapters that PEFT's initialize_lora_eva_weights began on models/llama-gqa and its samples.

PEFT decomposes with torch.svd_lowrank, which is random; here with torch.linalg.svd, which it approximates.
"""
import json
import pathlib
import shutil

import peft
import torch
import transformers
from peft.tuners.lora.eva import initialize_lora_eva_weights
from peft.utils.incremental_pca import IncrementalPCA

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE / "models" / "llama-gqa"
CASES = {
    "default": {"r": 4},
    "no-mask": {"r": 3, "lora_alpha": 6, "eva_config": {"rho": 1.5, "tau": 0.95, "use_label_mask": False}},
    "label": {"r": 4, "eva_config": {"label_mask_value": 24, "rho": 3.0}},
    "same-ranks": {"r": 6, "eva_config": {"rho": 1.0}},
    "patterns": {"r": 3, "lora_alpha": 5, "use_rslora": True, "rank_pattern": {"q_proj": 5, "layers.1.mlp.up_proj": 2},
                 "alpha_pattern": {"q_proj": 7}, "eva_config": {"adjust_scaling_factors": False}},
    "whiten": {"r": 4, "target_modules": ["q_proj", "o_proj", "down_proj"], "eva_config": {"whiten": True}},
    "dropped": {"r": 1, "eva_config": {"rho": 4.0}},
}


def batches():
    """As ft deals them: four copies of the samples, three at a time."""
    rows = [json.loads(line) for line in (MODEL / "samples.jsonl").read_text().splitlines()] * 4
    for at in range(0, len(rows), 3):
        part = rows[at:at + 3]
        longest = max(len(r["input_ids"]) for r in part)
        fill = lambda key, value: torch.tensor([r[key] + [value] * (longest - len(r[key])) for r in part])
        mask = torch.tensor([[1] * len(r["input_ids"]) + [0] * (longest - len(r["input_ids"])) for r in part])
        yield {"input_ids": fill("input_ids", 0), "labels": fill("labels", -100), "attention_mask": mask}


def begun(settings, exact):
    torch.manual_seed(0)
    base = transformers.AutoModelForCausalLM.from_pretrained(MODEL / "model", dtype=torch.float32)
    config = {"target_modules": "all-linear", "task_type": "CAUSAL_LM", **settings}
    eva = peft.EvaConfig(**config.pop("eva_config", {}))
    model = peft.get_peft_model(base, peft.LoraConfig(init_lora_weights="eva", eva_config=eva, **config))
    low = IncrementalPCA._svd_fn_lowrank
    if exact:
        IncrementalPCA._svd_fn_lowrank = lambda self, x: self._svd_fn_full(x)
        IncrementalPCA._svd_fn_full = lambda self, x: torch.linalg.svd(x, full_matrices=False)
    initialize_lora_eva_weights(model, dataloader=list(batches()), show_progress_bar=False)
    IncrementalPCA._svd_fn_lowrank = low
    return model


def main():
    shutil.rmtree(HERE / "eva", ignore_errors=True)
    for name, case in CASES.items():
        settings = {"lora_alpha": 8, **case}
        model = begun(settings, True)
        folder = HERE / "eva" / name
        model.save_pretrained(folder)
        (folder / "README.md").unlink(missing_ok=True)
        config = json.loads((folder / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = None
        config["target_modules"] = sorted(config["target_modules"])
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
        (folder / "lora.json").write_text(json.dumps({"init_lora_weights": "eva", **settings}) + "\n")
        try:
            drawn = begun(settings, False).peft_config["default"].rank_pattern
        except ValueError as e:
            drawn = e
        print(name, config["rank_pattern"], config["alpha_pattern"], config["target_modules"], "as PEFT draws:", drawn == config["rank_pattern"], drawn if isinstance(drawn, ValueError) else "")
    for f in (HERE / "eva").rglob("*"):
        if f.is_file():
            f.chmod(0o644)


if __name__ == "__main__":
    main()
