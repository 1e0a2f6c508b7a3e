"""lora_ga/<case>/: the first A and B of PEFT's LoRA-GA, from gradients on the samples of models/llama-gqa or gpt2.

PEFT decomposes with torch.svd_lowrank, which is random; here with torch.linalg.svd, which it approximates.
"""
import json
import os
import pathlib
import shutil

os.environ["HF_HUB_OFFLINE"] = "1"
import peft
import torch
import transformers
from peft.tuners.lora.loraga import preprocess_loraga
from safetensors.torch import save_file

torch.set_num_threads(1)
HERE = pathlib.Path(__file__).resolve().parent
CASES = {
    "default": ("llama-gqa", 4, {"lora_alpha": 8}, {}),
    "weight-svd": ("llama-gqa", 1, {"lora_alpha": 8}, {"direction": "A2rBr", "scale": "weight_svd"}),
    "gd-scale": ("llama-gqa", 3, {"lora_alpha": 9, "alpha_pattern": {"k_proj": 2}}, {"direction": "ArBr", "scale": "gd_scale"}),
    "unit": ("llama-gqa", 2, {"lora_alpha": 4, "use_rslora": True}, {"scale": "unit"}),
    "inputs-first": ("gpt2", 2, {"lora_alpha": 8, "fan_in_fan_out": True, "target_modules": ["c_attn", "c_fc"]},
                     {"stable_gamma": 4}),
}


def batches(model):
    """As ft deals them: four copies of the samples, three at a time."""
    rows = [json.loads(line) for line in (HERE / "models" / model / "samples.jsonl").read_text().splitlines()] * 4
    for at in range(0, len(rows), 3):
        part = rows[at:at + 3]
        longest = max(len(r["input_ids"]) for r in part)
        fill = lambda key, value: torch.tensor([r[key] + [value] * (longest - len(r[key])) for r in part])
        mask = torch.tensor([[1] * len(r["input_ids"]) + [0] * (longest - len(r["input_ids"])) for r in part])
        yield {"input_ids": fill("input_ids", 0), "labels": fill("labels", -100), "attention_mask": mask}


def svd(matrix, q, niter):
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    return u[:, :q], s[:q], vh[:q].T


def main():
    torch.svd_lowrank = svd
    shutil.rmtree(HERE / "lora_ga", ignore_errors=True)
    for name, (model, count, settings, ga) in CASES.items():
        base = transformers.AutoModelForCausalLM.from_pretrained(
            HERE / "models" / model / "model", dtype=torch.float32, attn_implementation="eager")
        settings = {"r": 4, "target_modules": ["q_proj", "k_proj", "down_proj"], **settings}
        config = peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights="lora_ga",
                                 lora_ga_config=peft.LoraGAConfig(**ga), **settings)
        data = list(batches(model))[:count]

        def train_step():
            for batch in data:
                base(**batch).loss.backward()

        preprocess_loraga(base, config, train_step)
        torch.manual_seed(0)
        wrapped = peft.get_peft_model(base, config)
        found = {n.replace(".default", ""): p.detach().clone().contiguous() for n, p in wrapped.named_parameters() if "lora_" in n}
        folder = HERE / "lora_ga" / name
        folder.mkdir(parents=True)
        save_file(found, folder / "first.safetensors")
        settings.pop("fan_in_fan_out", None)
        (folder / "lora.json").write_text(json.dumps(
            {"init_lora_weights": "lora_ga", "lora_ga_config": {"batches": count, **ga}, **settings}) + "\n")
        print(name, len(found), {n: [round(float(x), 5) for x in p.flatten()[:2]] for n, p in list(found.items())[:2]})
    for f in (HERE / "lora_ga").rglob("*"):
        if f.is_file():
            f.chmod(0o644)


if __name__ == "__main__":
    main()
