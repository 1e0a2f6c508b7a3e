#!/usr/bin/env python3
"""Makes four_bit/: matrices and what bitsandbytes 0.50 makes of them on a CPU, for tests/engine/io/four_bit_test.cpp.

    four_bit.py        (needs requirements.txt, bitsandbytes and accelerate)

For matrix M, book T and block B, under M.T.B: codes, absmax, dequantized; nested.* with double quantization.
Values are taken apart by the formula code * absmax: the AVX-512 path of 0.50 errs in short rows.
"""
from pathlib import Path

import bitsandbytes.functional as F
import torch
from bitsandbytes.backends.utils import _get_4bit_code
from safetensors.torch import save_file
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

FOLDER = Path(__file__).resolve().parent / "four_bit"


def inputs():
    g = torch.Generator().manual_seed(5)
    normal = lambda *shape: torch.randn(*shape, generator=g)
    nf4 = _get_4bit_code("nf4", "cpu")
    between = (nf4[:-1] + nf4[1:]) / 2
    return {
        "odd": normal(5, 27),
        "many": (normal(130, 127) * normal(130, 1).abs()).bfloat16(),  # more than 256 blocks
        "between": torch.cat([nf4, between, torch.nextafter(between, torch.tensor(2.0))])[:44],
        "zeros": torch.cat([normal(64), torch.zeros(64), normal(9)]),
        "narrow": normal(9, 71).bfloat16(),
    }


def taken_apart(codes, absmax, w, kind, block):
    q = torch.stack([codes.reshape(-1) >> 4, codes.reshape(-1) & 15], 1).reshape(-1)[: w.numel()].long()
    values = _get_4bit_code(kind, "cpu")[q] * absmax.repeat_interleave(block)[: w.numel()]
    return values.to(w.dtype).reshape(w.shape)


def models():
    """plain/: a tiny model; packed/: the same as transformers saves it in 4 bits."""
    torch.manual_seed(3)
    config = LlamaConfig(vocab_size=40, hidden_size=36, intermediate_size=70, num_hidden_layers=1,
                         num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=64)
    LlamaForCausalLM(config).save_pretrained(FOLDER / "plain")
    four_bit = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
    model = LlamaForCausalLM.from_pretrained(FOLDER / "plain", quantization_config=four_bit, dtype=torch.float32)
    model.save_pretrained(FOLDER / "packed")
    for name in ("plain", "packed"):
        (FOLDER / name / "generation_config.json").unlink(missing_ok=True)


def main():
    models()
    x = inputs()
    y = {f"map.{kind}": _get_4bit_code(kind, "cpu").clone() for kind in ("nf4", "fp4")}
    y["map.dynamic"] = F.create_dynamic_map().float()
    for name, w in x.items():
        for kind, block in (("nf4", 64), ("fp4", 64), ("nf4", 128)):
            if name == "many" and (kind, block) != ("nf4", 64):
                continue
            key = f"{name}.{kind}.{block}"
            codes, s = F.quantize_4bit(w, blocksize=block, quant_type=kind)
            y[f"{key}.codes"], y[f"{key}.absmax"] = codes.reshape(-1), s.absmax
            y[f"{key}.dequantized"] = taken_apart(codes, s.absmax, w, kind, block)
            if (kind, block) != ("nf4", 64):
                continue
            codes, s = F.quantize_4bit(w, blocksize=block, quant_type=kind, compress_statistics=True)
            scales = y["map.dynamic"][s.absmax.long()] * s.state2.absmax.repeat_interleave(256)[: len(s.absmax)]
            y[f"{key}.nested.codes"], y[f"{key}.nested.absmax"] = s.absmax, s.state2.absmax
            y[f"{key}.nested.offset"] = s.offset.reshape(1)
            y[f"{key}.nested.dequantized"] = taken_apart(codes, scales + s.offset, w, kind, block)
    FOLDER.mkdir(exist_ok=True)
    save_file({k: v.contiguous() for k, v in x.items()}, FOLDER / "input.safetensors")
    save_file({k: v.contiguous().clone() for k, v in y.items()}, FOLDER / "expected.safetensors")


main()
