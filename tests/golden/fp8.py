#!/usr/bin/env python3
"""Makes fp8/: torch's float8_e4m3fn, and a tiny model in the public forms of FP8, with logits of transformers.

    fp8.py        (needs requirements.txt)

numbers.safetensors   values: of all 256 codes. bf16: codes of all 65,536 numbers, by their bits. f32.bits, f32.codes:
                      numbers halfway between two codes and beside, subnormal ones, huge ones, NaN; and random ones.
matrix.safetensors    rows with their scales and codes: random, one huge value, zeros, subnormal numbers.
block, channel, tensor: folders as DeepSeek's (fp8, 128 x 128), compressed-tensors' with a scale for each row (bf16)
                      or for the matrix. logits.safetensors: of each for ids, in f32 with code * scale.
"""
import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

FOLDER = Path(__file__).resolve().parent / "fp8"
# The tokens of ft's probe_logits (app/models/probe.cpp) for a vocabulary of 40.
IDS = [32, 25, 7, 35, 28, 29, 15, 7, 24, 32, 12, 6, 8, 36, 37, 9, 21, 36, 30, 3, 30, 26, 8, 18, 31, 31, 32, 1, 16, 6,
       19, 9, 15]
E4M3 = torch.float8_e4m3fn


def codes(x):
    return x.float().clamp(-448, 448).to(E4M3).view(torch.uint8)


def numbers():
    g = torch.Generator().manual_seed(7)
    values = torch.arange(256, dtype=torch.uint8).view(E4M3).float()
    ascending = values[:127]
    middle = (ascending[:-1] + ascending[1:]) / 2
    inf = torch.tensor(float("inf"))
    positive = torch.cat([ascending, middle, torch.nextafter(middle, inf), torch.nextafter(middle, -inf),
                          torch.tensor([448.0, 449, 463.9, 464, 465, 480, 1e10, 3.4e38, float("inf"), 2.0**-10,
                                        2.0**-11, 1e-38, 1e-45, float("nan")]),
                          torch.rand(1000, generator=g) * 500, torch.rand(1000, generator=g) * 0.02,
                          torch.randn(1000, generator=g)])
    f32 = torch.cat([positive, -positive])
    bf16 = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    save_file({"values": values.nan_to_num(nan=0), "bf16": codes(bf16), "f32.bits": f32.view(torch.int32),
               "f32.codes": codes(f32)}, FOLDER / "numbers.safetensors")


def quantized(w, amax):
    scale = (amax / 448).clamp(min=2.0**-126)
    return scale, codes(w / scale)


def matrix():
    g = torch.Generator().manual_seed(8)
    w = torch.randn(12, 200, generator=g)
    w[1, 17] = 3e4
    w[2] = 0
    w[3] = w[3] * 1e-39
    w[4] = 0
    w[4, 5] = 1e-45
    w[5] = w[5] * 1e37
    w[6, ::2] = 0
    w[7] = -w[7].abs()
    scale, q = quantized(w, w.abs().amax(1, keepdim=True))
    save_file({"w": w, "codes": q.contiguous(), "scales": scale.contiguous()}, FOLDER / "matrix.safetensors")


def blocks_of(w):
    """The largest magnitude of each block of 128 x 128, for every element."""
    amax = torch.zeros_like(w)
    for r in range(0, w.shape[0], 128):
        for c in range(0, w.shape[1], 128):
            amax[r:r + 128, c:c + 128] = w[r:r + 128, c:c + 128].abs().max()
    return amax


def models():
    torch.manual_seed(3)
    config = LlamaConfig(vocab_size=40, hidden_size=136, intermediate_size=144, num_hidden_layers=1,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    model = LlamaForCausalLM(config).float()
    plain = {k: v.bfloat16() for k, v in model.state_dict().items()}
    ids = torch.tensor([IDS])
    logits = {}
    for form in ("block", "channel", "tensor"):
        files, dense = {}, {}
        for name, w in plain.items():
            dense[name] = w.float()
            if not name.endswith("proj.weight"):
                files[name] = w
                continue
            w = w.float()
            amax = {"block": blocks_of(w), "channel": w.abs().amax(1, keepdim=True), "tensor": w.abs().max()}[form]
            scale, q = quantized(w, amax)
            if form == "channel":  # as compressed-tensors does, in the model's type
                scale = scale.bfloat16()
                q = codes(w / scale.float())
            files[name] = q.view(E4M3)
            kept = {"block": lambda s: s[::128, ::128], "channel": lambda s: s, "tensor": lambda s: s.reshape(1)}
            files[name + ("_scale_inv" if form == "block" else "_scale")] = kept[form](scale).contiguous()
            dense[name] = q.view(E4M3).float() * scale.float()
        model.load_state_dict(dense)
        logits[form] = model(ids).logits[0].detach()
        folder = FOLDER / form
        folder.mkdir(exist_ok=True)
        save_file(files, folder / "model.safetensors", metadata={"format": "pt"})
        j = config.to_dict() | {"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"}
        j.pop("dtype", None)
        weights = {"dynamic": False, "num_bits": 8, "strategy": form, "symmetric": True, "type": "float"}
        j["quantization_config"] = {
            "activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128],
            "modules_to_not_convert": ["lm_head"]} if form == "block" else {
            "config_groups": {"group_0": {"input_activations": None, "targets": ["Linear"], "weights": weights}},
            "format": "float-quantized", "ignore": ["re:.*lm_head"], "quant_method": "compressed-tensors",
            "quantization_status": "compressed"}
        (folder / "config.json").write_text(json.dumps(j, indent=2, sort_keys=True) + "\n")
    save_file(logits | {"ids": ids[0].int()}, FOLDER / "logits.safetensors")


def main():
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    numbers()
    matrix()
    models()


main()
