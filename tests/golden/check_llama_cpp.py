#!/usr/bin/env python3
"""Does llama.cpp answer as ft does, for every family with an architecture there?

    check_llama_cpp.py FT [LIBRARY]        (a Python with what bench/real/llama.py needs, which says what LIBRARY is)

ft makes a small random model of each family, exports it to GGUF in float32, and answers 20 prompts of ids greedily; llama.cpp
reads the file, with keys and values in float32, and has to give the same 24 tokens. Ends with 1 if one is another.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/real"))
import llama

NEW, END = 24, 319  # END ends answers in the models' files, and is given to neither side


def shape(model_type, architecture, **more):
    return {"model_type": model_type, "architectures": [architecture], "vocab_size": 320, "max_position_embeddings": 512, "hidden_size": 128,
            "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
            "bos_token_id": 1, "eos_token_id": END, "pad_token_id": 0, "tie_word_embeddings": False, "initializer_range": 0.15,
            "hidden_act": "silu", **more}


GEMMA = {"head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 64, "hidden_activation": "gelu_pytorch_tanh",
         "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": True}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "decoder_sparse_step": 1, "mlp_only_layers": []}
DELTA_NETS = {"num_hidden_layers": 4, "full_attention_interval": 2, "head_dim": 32, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
              "linear_num_key_heads": 2, "linear_num_value_heads": 4,
              "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}
ROUTED = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "n_shared_experts": 1, "first_k_dense_replace": 1,
          "routed_scaling_factor": 1.5}
LATENT = {**ROUTED, "num_key_value_heads": 4, "q_lora_rank": 64, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 32,
          "v_head_dim": 32}
GROUPS = {"n_group": 4, "topk_group": 2}
GEMMA4 = {"num_hidden_layers": 6, "head_dim": 32, "global_head_dim": 64, "sliding_window": 16, "hidden_activation": "gelu_pytorch_tanh",
          "tie_word_embeddings": True, "hidden_size_per_layer_input": 0,
          "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2}
MODELS = [
    shape("llama", "LlamaForCausalLM"), shape("mistral", "MistralForCausalLM"), shape("qwen2", "Qwen2ForCausalLM"),
    shape("qwen3", "Qwen3ForCausalLM", head_dim=32), shape("olmo2", "Olmo2ForCausalLM"),
    shape("granite", "GraniteForCausalLM", embedding_multiplier=2.0, logits_scaling=1.5, residual_multiplier=0.5, attention_multiplier=0.15),
    shape("smollm3", "SmolLM3ForCausalLM", num_hidden_layers=4, no_rope_layer_interval=4),
    shape("phi3", "Phi3ForCausalLM", original_max_position_embeddings=512),
    shape("gemma2", "Gemma2ForCausalLM", **GEMMA, num_hidden_layers=4),
    shape("gemma3_text", "Gemma3ForCausalLM", **GEMMA, num_hidden_layers=6, sliding_window_pattern=6, rope_theta=1e6, rope_local_base_freq=1e4),
    shape("gpt_neox", "GPTNeoXForCausalLM", rotary_pct=0.25, rotary_emb_base=10000, layer_norm_eps=1e-5, hidden_act="gelu"),
    {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 320, "n_positions": 512, "n_embd": 128, "n_layer": 3, "n_head": 4,
     "bos_token_id": 1, "eos_token_id": END, "initializer_range": 0.15},
    shape("mixtral", "MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=2),
    shape("qwen2_moe", "Qwen2MoeForCausalLM", **EXPERTS, shared_expert_intermediate_size=128, norm_topk_prob=False),
    shape("qwen3_moe", "Qwen3MoeForCausalLM", **EXPERTS, head_dim=32, norm_topk_prob=True),
    shape("qwen3_5_text", "Qwen3_5ForCausalLM", **DELTA_NETS),
    shape("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", **DELTA_NETS, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=128,
          shared_expert_intermediate_size=128),
    shape("qwen3_next", "Qwen3NextForCausalLM", **DELTA_NETS, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=128,
          shared_expert_intermediate_size=128, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[]),
    shape("gpt_oss", "GptOssForCausalLM", num_hidden_layers=4, head_dim=32, num_local_experts=8, num_experts_per_tok=2, sliding_window=16,
          rope_theta=150000, rope_scaling={"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": True,
                                           "original_max_position_embeddings": 128}),
    shape("deepseek_v2", "DeepseekV2ForCausalLM", **LATENT, topk_method="greedy", norm_topk_prob=False),
    shape("deepseek_v3", "DeepseekV3ForCausalLM", **LATENT, **GROUPS, norm_topk_prob=True,
          rope_scaling={"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 128}),
    shape("glm4_moe_lite", "Glm4MoeLiteForCausalLM", **LATENT, n_group=1, topk_group=1, norm_topk_prob=True),
    shape("glm4_moe", "Glm4MoeForCausalLM", **ROUTED, num_key_value_heads=2, head_dim=32, attention_bias=True, use_qk_norm=True, n_group=1,
          topk_group=1, norm_topk_prob=True, partial_rotary_factor=0.5),
    shape("gemma4_text", "Gemma4ForCausalLM", **GEMMA4, attention_k_eq_v=True, num_global_key_value_heads=1, final_logit_softcapping=30.0),
    shape("gemma4_text", "Gemma4ForCausalLM", **{**GEMMA4, "hidden_size_per_layer_input": 32}, num_kv_shared_layers=3, use_double_wide_mlp=True,
          vocab_size_per_layer_input=320),
    shape("gemma4_text", "Gemma4ForCausalLM", **GEMMA4, enable_moe_block=True, num_experts=8, top_k_experts=2, moe_intermediate_size=128),
    shape("olmoe", "OlmoeForCausalLM", num_experts=8, num_experts_per_tok=2, num_key_value_heads=4, norm_topk_prob=False),
]


def theirs(file, prompts):
    model, answers = llama.Model(str(file)), []
    for prompt in prompts:
        context, answer, tokens = model.context(), [], prompt
        while len(answer) < NEW:
            logits = model.logits(context, tokens).copy()
            logits[END] = -numpy.inf
            answer.append(int(logits.argmax()))
            tokens = answer[-1:]
        llama.lib.llama_free(context)
        answers.append(answer)
    return answers


def main():
    ft = Path(sys.argv[1]).resolve()
    draw = random.Random(3)
    prompts = [[1] + [draw.randrange(3, END) for _ in range(draw.randrange(4, 30))] for _ in range(20)]
    good = True
    for config in MODELS:
        with tempfile.TemporaryDirectory() as top:
            os.chdir(top)
            Path("config.json").write_text(json.dumps(config))
            Path("prompts.jsonl").write_text("".join(json.dumps({"input_ids": p}) + "\n" for p in prompts))
            for command in (["init", "--config", "config.json", "--output", "model", "--dtype", "float32"],
                            ["export", "--to", "gguf", "--from", "model", "--output", "model.gguf", "--dtype", "float32"],
                            ["generate", "--model", "model", "--input", "prompts.jsonl", "--output", "answers.jsonl", "--dtype", "float32",
                             f"generation.max_new_tokens={NEW}", f"generation.min_new_tokens={NEW}"]):
                subprocess.run([ft, *command], check=True, capture_output=True)
            ours = [json.loads(line)["output_ids"] for line in open("answers.jsonl")]
            same = sum(a == b for a, b in zip(ours, theirs("model.gguf", prompts)))
        good &= same == len(prompts)
        print(f"{config['model_type']:12} {same} of {len(prompts)} answers are the same", flush=True)
    sys.exit(not good)


main()
