#!/usr/bin/env python3
"""Compares what ft makes of a GGUF file with the gguf package and with the model that the file was made from.

    check_gguf_import.py FT        (a Python with numpy, safetensors and gguf)

Every element type that ft writes, of models with rows of whole blocks: the weights that `ft export --to hf` gives in f32 must be
the bits of gguf.quants.dequantize, in Hugging Face's order of rows; config.json must describe the model that was exported.
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file

COMMON = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 96,
          "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "initializer_range": 0.3}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
MODELS = {
    "llama": {"model_type": "llama", "num_key_value_heads": 8, **COMMON},
    "llama3": {"model_type": "llama", "num_key_value_heads": 2, "rope_theta": 500000.0, "rope_scaling": LLAMA3, "tie_word_embeddings": True, **COMMON},
    "mistral": {"model_type": "mistral", "num_key_value_heads": 4, "sliding_window": None, **COMMON},
    "qwen2": {"model_type": "qwen2", "num_key_value_heads": 2, **COMMON},
    "qwen3": {"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 64, **COMMON},
    "t5": {"model_type": "t5", "d_model": 256, "d_ff": 512, "d_kv": 32, "num_heads": 8, "num_layers": 2, "vocab_size": 96, "feed_forward_proj": "gated-gelu",
           "tie_word_embeddings": False, "relative_attention_max_distance": 128, "decoder_start_token_id": 0, "is_encoder_decoder": True},
}
ARCHITECTURES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
                 "t5": "T5ForConditionalGeneration"}
TYPES = ["float32", "float16", "bfloat16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q5_0", "q4_0", "iq4_nl"]
SAME = ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size", "head_dim", "rope_theta",
        "rope_scaling", "d_model", "d_ff", "d_kv", "num_heads", "num_layers", "feed_forward_proj"]


def ft(*words):
    done = subprocess.run([sys.argv[1], *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def unpermuted(w, heads):
    return w.reshape(heads, w.shape[0] // heads // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def check(folder, name, config):
    config = {**config, "architectures": [ARCHITECTURES[config["model_type"]]]}
    (folder / "config.json").write_text(json.dumps(config))
    model = folder / "model"
    ft("init", "--config", folder / "config.json", "--output", model)
    original = load_file(model / "model.safetensors")
    for dtype in TYPES:
        file, back = folder / f"{dtype}.gguf", folder / dtype
        ft("export", "--to", "gguf", "--from", model, "--output", file, "--dtype", dtype)
        said = ft("export", "--to", "hf", "--from", file, "--output", back, "--dtype", "float32")
        assert ("warning: " in said) == (dtype not in TYPES[:3]), said
        got, config_back = load_file(back / "model.safetensors"), json.loads((back / "config.json").read_text())
        for key in SAME:
            if key in config and key in config_back and config[key] is not None:
                assert config_back[key] == config[key], (name, dtype, key, config[key], config_back[key])
        tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(*reversed(t.shape.tolist())) for t in gguf.GGUFReader(file).tensors}
        kinds = sorted({t.tensor_type.name for t in gguf.GGUFReader(file).tensors})
        assert set(got) <= set(original) | {"lm_head.weight"}, set(got) - set(original)
        wanted = sorted(v.astype(np.float32).tobytes() for k, v in tensors.items() if k != "rope_freqs.weight" and not re.search(r"attn_[qk]\.", k))
        for k, v in tensors.items():
            if m := re.search(r"attn_([qk])\.", k):
                heads = config.get("num_attention_heads" if m[1] == "q" else "num_key_value_heads", 1)
                llama = config["model_type"] in ("llama", "mistral")
                wanted.append((unpermuted(v, heads) if llama else v).astype(np.float32).tobytes())
        assert sorted(wanted) == sorted(v.tobytes() for v in got.values()), (name, dtype)
        if dtype == "float32":
            for k, v in got.items():
                assert np.array_equal(v, original.get(k, original.get("model.embed_tokens.weight"))), (name, k)
        print(f"{name:8} {dtype:9} {len(got)} tensors ({', '.join(kinds)}), the bits of the gguf package", flush=True)


for name, config in MODELS.items():
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), name, config)
