"""Adapters of the kinds that ft folds into weights (lora/folded), and what PEFT's merge_and_unload makes of their models:
the changed weights in f32, and the logits of a few tokens (folded/*/expected.safetensors). The models are in models/."""
import json
import os
import pathlib
import shutil

os.environ["HF_HUB_OFFLINE"] = "1"
import peft
import peft.tuners.boft.layer as boft
import torch
import transformers
from safetensors.torch import load_file, save_file

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
HERE = pathlib.Path(__file__).resolve().parent
CASES = {
    "adalora": ("llama", peft.AdaLoraConfig(
        init_r=4, target_r=2, lora_alpha=6, total_step=10, target_modules=["q_proj", "down_proj"],
        rank_pattern={"model.layers.0.self_attn.q_proj.lora_E": [True, False, True, True],
                      "model.layers.0.mlp.down_proj.lora_E": [False, False, False, False],
                      "model.layers.1.self_attn.q_proj.lora_E": [True] * 4,
                      "model.layers.1.mlp.down_proj.lora_E": [False, True, False, False]})),
    "vera": ("llama-biases-gelu", peft.VeraConfig(
        r=5, bias="vera_only", projection_prng_key=11, target_modules=["k_proj", "up_proj", "down_proj"],
        layers_to_transform=[1], modules_to_save=["model.norm"])),
    "vera-drawn": ("llama", peft.VeraConfig(
        r=6, save_projection=False, projection_prng_key=2 ** 32 + 123, target_modules=["q_proj", "up_proj", "down_proj"],
        layers_to_transform=[0])),
    "vera-gpt2": ("gpt2", peft.VeraConfig(r=3, target_modules=["c_attn"], fan_in_fan_out=True)),
    "loha": ("llama", peft.LoHaConfig(
        r=4, alpha=6, rank_pattern={"q_proj": 3}, alpha_pattern={"layers.1.mlp.up_proj": 5},
        target_modules=["q_proj", "up_proj"], modules_to_save=["lm_head"])),
    "lokr": ("llama", peft.LoKrConfig(
        r=2, alpha=3, decompose_both=True, decompose_factor=8, rank_pattern={"v_proj": 20},
        alpha_pattern={"down_proj": 7}, target_modules=["q_proj", "v_proj", "down_proj"], exclude_modules=["layers.0.mlp.down_proj"])),
    "lokr-near": ("llama", peft.LoKrConfig(r=2, alpha=4, target_modules=["o_proj", "gate_proj"], layers_to_transform=[1])),
    "ia3": ("llama-biases-gelu", peft.IA3Config(
        target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"])),
    "ia3-gpt2": ("gpt2", peft.IA3Config(
        target_modules=["c_attn", "mlp.c_proj"], feedforward_modules=["mlp.c_proj"], fan_in_fan_out=True)),
    "boft": ("llama-biases-gelu", peft.BOFTConfig(
        boft_block_size=0, boft_block_num=2, bias="boft_only", target_modules=["q_proj", "down_proj"], layers_to_transform=[0])),
    "boft-butterfly": ("llama", peft.BOFTConfig(
        boft_block_size=4, boft_n_butterfly_factor=3, target_modules=["q_proj", "up_proj"], layers_to_transform=[1])),
}


class BlockDiagonal:
    """What PEFT's CUDA kernel computes: it is compiled where BOFT runs on a GPU."""
    @staticmethod
    def apply(blocks):
        return torch.stack([torch.block_diag(*factor) for factor in blocks])


def load(model):
    return transformers.AutoModelForCausalLM.from_pretrained(
        HERE / "models" / model / "model", dtype=torch.float32, attn_implementation="eager").eval()


def make(name, model, config):
    folder = HERE / "folded" / name
    shutil.rmtree(folder, ignore_errors=True)
    config.task_type = "CAUSAL_LM"
    ranks, config_ranks = getattr(config, "rank_pattern", None), name == "adalora"
    if config_ranks:
        config.rank_pattern = None
    wrapped = peft.get_peft_model(load(model), config)
    g = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in (p for p in wrapped.parameters() if p.requires_grad):
            p.add_(0.3 * torch.randn(p.shape, generator=g))
    if config_ranks:
        config.rank_pattern = ranks
    wrapped.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    text = json.loads(path.read_text())
    text["base_model_name_or_path"] = None
    for key, value in text.items():                  # PEFT writes sets in any order
        if isinstance(value, list):
            text[key] = sorted(value)
    path.write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")

    before = load(model).state_dict()
    merged = peft.PeftModel.from_pretrained(load(model), folder).merge_and_unload()
    after = merged.state_dict()
    expected = {n: t.contiguous().clone() for n, t in after.items() if not torch.equal(t, before[n])}
    if merged.config.tie_word_embeddings:
        expected.pop("lm_head.weight", None)
    ids = torch.arange(3, 23) * 7 % merged.config.vocab_size
    with torch.no_grad():
        expected["logits"] = merged(ids[None]).logits[0].contiguous()
        assert not torch.allclose(expected["logits"], load(model)(ids[None]).logits[0], atol=1e-2)
    expected["ids"] = ids.int()
    save_file(expected, folder / "expected.safetensors")
    print(name, sorted(expected), sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KB",
          {n.split("base_model.model.")[-1]: list(t.shape) for n, t in load_file(folder / "adapter_model.safetensors").items()})
    for f in folder.iterdir():
        f.chmod(0o644)


def main():
    for name, (model, config) in CASES.items():
        if name == "boft-butterfly":
            boft.get_fbd_cuda, boft.FastBlockDiag = lambda: True, BlockDiagonal
        make(name, model, config)


if __name__ == "__main__":
    main()
