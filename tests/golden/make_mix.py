"""Two small adapters, and what PEFT's add_weighted_adapter makes of them: B A of each module (mix/expected.safetensors)."""
import pathlib
import shutil

import peft
import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
KINDS = {"cat": {}, "svd": {"svd_rank": 2}, "linear": {}, "ties": {"density": 0.5},
         "ties_frequency": {"density": 0.5, "majority_sign_method": "frequency"}, "magnitude_prune": {"density": 0.3}}
WEIGHTS = [0.7, -0.4]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.ModuleDict({"q_proj": torch.nn.Linear(9, 11), "k_proj": torch.nn.Linear(7, 5)})


def main():
    folder = HERE / "mix"
    shutil.rmtree(folder, ignore_errors=True)
    configs = {"a": peft.LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj", "k_proj"], alpha_pattern={"k_proj": 2}),
               "b": peft.LoraConfig(r=3, lora_alpha=5, target_modules=["q_proj"], use_rslora=True)}
    torch.manual_seed(4)
    model = peft.PeftModel(Model(), configs["a"], adapter_name="a")
    model.add_adapter("b", configs["b"])
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.copy_(torch.randn(p.shape))
    for name in configs:
        model.save_pretrained(folder / name, selected_adapters=[name])
        (folder / name / name).rename(folder / f"{name}.tmp")
        shutil.rmtree(folder / name)
        (folder / f"{name}.tmp").rename(folder / name)
        (folder / name / "README.md").unlink(missing_ok=True)
    results = {}
    for kind, more in KINDS.items():
        model.base_model.add_weighted_adapter(["a", "b"], WEIGHTS, kind, combination_type=kind.split("_frequency")[0], **more)
        if kind in ("ties", "ties_frequency", "magnitude_prune", "linear", "svd", "cat"):
            for module in ("q_proj", "k_proj"):
                layer = model.base_model.model.model[module]
                results[f"{kind}.model.{module}"] = layer.get_delta_weight(kind).detach().clone().contiguous()
    # PEFT gives the new adapter b's rslora's scale only where a has it: a has not, so that it is 1.
    save_file(results, folder / "expected.safetensors")
    for f in folder.rglob("*"):
        if f.is_file():
            f.chmod(0o644)
            print(f.relative_to(HERE), f.stat().st_size)


if __name__ == "__main__":
    main()
