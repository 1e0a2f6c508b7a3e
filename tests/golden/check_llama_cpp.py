#!/usr/bin/env python3
"""Does llama.cpp answer as ft does, for every family with an architecture there?

    check_llama_cpp.py FT [LIBRARY] [models | types | adapters]... [only=REGEX]    (a Python with what bench/real/llama.py needs, which says what LIBRARY is)

models    ft makes a small random model of each family, exports it to GGUF in float32, and answers 20 prompts of ids greedily; llama.cpp
          reads the file, with keys and values in float32, and has to give the same 24 tokens. This is done if no word is given.
types     The same models, wider, in every type that `ft export` writes; ft answers 2 prompts from the GGUF file, with the weights decoded to float32.
          llama.cpp computes products of codes with codes of rows, so it reads ft's answer, and its logit of each next token must be
          within SLACK standard deviations of its largest. In a mixture rounding chooses other experts: half of the tokens must be the same.
adapters  LoRA on all linears (or as many as ft exports), trained for 3 large steps and exported as GGUF-LoRA, which llama.cpp adds to the model's
          file. Four of five answers must be the same (llama.cpp looks GELU up in half precision, by which a router may choose another
          expert); an adapter that llama.cpp ignores gives none.
Ends with 1 if anything is otherwise.
"""
import json
import os
import random
import re
import shutil
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


def t5(feed_forward, tied, factor):
    return {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 320, "d_model": 128, "d_kv": 32, "d_ff": 256,
            "num_layers": 3, "num_decoder_layers": 3, "num_heads": 4, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128,
            "feed_forward_proj": feed_forward, "tie_word_embeddings": tied, "layer_norm_epsilon": 1e-6, "initializer_factor": factor,
            "pad_token_id": 0, "eos_token_id": END, "decoder_start_token_id": 0, "is_encoder_decoder": True}


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
    t5("relu", tied=True, factor=3.0), t5("relu", tied=False, factor=2.0), t5("gated-gelu", tied=False, factor=1.0),
    shape("olmoe", "OlmoeForCausalLM", num_experts=8, num_experts_per_tok=2, num_key_value_heads=4, norm_topk_prob=False),
]


TYPES = ["float32", "float16", "bfloat16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q5_0", "q4_0", "iq4_nl"]
REFUSED = 3          # the exit code of ft for input that it cannot use
SLACK = {"float32": 1e-4, "float16": 0.02, "bfloat16": 0.15}    # llama.cpp rounds rows to the weights' type
CODES = 0.6          # the slack of other types: rows are rounded to 8 bits, and Gemma 4 does not scale scores, so that they are large
ATTENTION, OTHERS = r".*_attn\.\w*proj\w*", r".*\.self_attn\.[qkvo]_proj"   # of models all of whose linears GGUF-LoRA cannot have
TOLD = {ATTENTION: "attention", OTHERS: "q, k, v and o"}
WIDER = ("hidden_size", "intermediate_size", "n_embd", "moe_intermediate_size", "shared_expert_intermediate_size")


def run(ft, *command):
    return subprocess.run([ft, *command], check=True, capture_output=True, text=True)


def generate(ft, model, prompts, *more):
    Path("prompts.jsonl").write_text("".join(json.dumps({"input_ids": p}) + "\n" for p in prompts))
    run(ft, "generate", "--model", model, "--input", "prompts.jsonl", "--output", "answers.jsonl", "--overwrite", "--dtype", "float32", *more,
        f"generation.max_new_tokens={NEW}", f"generation.min_new_tokens={NEW}")
    return [json.loads(line)["output_ids"] for line in open("answers.jsonl")]


def init(ft, config):
    Path("config.json").write_text(json.dumps(config))
    run(ft, "init", "--config", "config.json", "--output", "model", "--dtype", "float32")


def theirs(file, prompts, adapter=None):
    model, answers = llama.Model(str(file)), []
    for prompt in prompts:
        context, answer = model.context(), []
        if adapter:
            model.adapt(context, adapter)
        tokens = model.begin(context, prompt)
        while len(answer) < NEW:
            logits = model.logits(context, tokens)
            logits[END] = -numpy.inf
            answer.append(int(logits.argmax()))
            tokens = answer[-1:]
        llama.lib.llama_free(context)
        answers.append(answer)
    return answers


def gaps(file, prompts, answers):
    """By how many standard deviations of llama.cpp's logits a token of the answers is below its best."""
    model, out = llama.Model(str(file)), []
    for prompt, answer in zip(prompts, answers):
        context = model.context()
        tokens = model.begin(context, prompt)
        for token in answer:
            logits = model.logits(context, tokens)
            out.append(float((logits.max() - logits[token]) / logits.std()))
            tokens = [token]
        llama.lib.llama_free(context)
    return numpy.array(out)


def check_models(ft, config, prompts):
    init(ft, config)
    run(ft, "export", "--to", "gguf", "--from", "model", "--output", "model.gguf", "--dtype", "float32")
    same = sum(a == b for a, b in zip(generate(ft, "model", prompts), theirs("model.gguf", prompts)))
    yield f"{same} of {len(prompts)} answers are the same", same == len(prompts)


def check_types(ft, config, prompts):
    init(ft, {**config, **{k: 2 * config[k] for k in WIDER if k in config}, "initializer_range": 0.05})  # larger, a bit of rounding moves attention
    for kind in TYPES:
        run(ft, "export", "--to", "gguf", "--from", "model", "--output", "model.gguf", "--overwrite", "--dtype", kind)
        gap = gaps("model.gguf", prompts[:2], generate(ft, "model.gguf", prompts[:2]))
        same, mixture = int((gap == 0).sum()), any("expert" in k for k in config) and kind != "float32"
        yield f"{kind:8} {same} of {len(gap)} tokens are the same, largest gap {gap.max():.1e}", (
            2 * same > len(gap) if mixture else gap.max() <= SLACK.get(kind, CODES))


def check_adapters(ft, config, prompts):
    if "tie_word_embeddings" in config and config["model_type"] != "gemma2":   # random tied models repeat a token; llama.cpp's gemma2 are tied
        config = {**config, "tie_word_embeddings": False}
    init(ft, config)
    run(ft, "export", "--to", "gguf", "--from", "model", "--output", "model.gguf", "--dtype", "float32")
    before = generate(ft, "model", prompts)
    Path("train.jsonl").write_text("".join(json.dumps({"input_ids": p, "labels": p}) + "\n" for p in prompts))
    lengths = ("max_source_length", "max_target_length") if config.get("is_encoder_decoder") else ("max_seq_length",)
    settings = {"model": {"model_name_or_path": "model"}, "lora": {"r": 4, "lora_alpha": 8},
                "data": {"datasets": [{"path": "train.jsonl", "type": "tokenized"}], **dict.fromkeys(lengths, 64)},
                "training": {"output_dir": "out", "per_device_train_batch_size": 4, "max_steps": 3, "learning_rate": 0.3, "bf16": False},
                "logging": {"progress": "none"}, "checkpointing": {"save_strategy": "no"}}
    for targets in ("all-linear", ATTENTION, OTHERS):
        settings["lora"]["target_modules"], where = targets, targets if targets == "all-linear" else TOLD[targets]
        Path("run.json").write_text(json.dumps(settings))
        run(ft, "train", "--config", "run.json")
        try:
            run(ft, "export", "--to", "gguf-lora", "--from", "out", "--output", "adapter.gguf", "--dtype", "float32")
        except subprocess.CalledProcessError as e:
            if e.returncode != REFUSED:
                raise
            yield f"{where}: ft refuses: {' '.join(e.stderr.split())[-170:]}", True
            shutil.rmtree("out")
            continue
        ours = generate(ft, "model", prompts, "--adapter", "out")
        same = sum(a == b for a, b in zip(ours, theirs("model.gguf", prompts, "adapter.gguf")))
        other = sum(a != b for a, b in zip(ours, before))
        yield f"{where}: {same} of {len(prompts)} answers are the same, {other} are others than the base's", 5 * same >= 4 * len(prompts) and other > 0
        return
    yield "no adapter could be exported", False


def main():
    ft, draw, good = Path(sys.argv[1]).resolve(), random.Random(3), True
    checks = {"models": check_models, "types": check_types, "adapters": check_adapters}
    prompts = [[1] + [draw.randrange(3, END) for _ in range(draw.randrange(4, 30))] for _ in range(20)]
    only = next((w.removeprefix("only=") for w in sys.argv[2:] if w.startswith("only=")), ".*")
    for word in [w for w in sys.argv[2:] if w in checks] or ["models"]:
        for config in [m for m in MODELS if re.fullmatch(only, m["model_type"])]:
            with tempfile.TemporaryDirectory() as top:
                os.chdir(top)
                for line, fine in checks[word](ft, config, prompts):
                    good &= fine
                    print(f"{config['model_type']:16} {line}{'' if fine else '   WRONG'}", flush=True)
    sys.exit(not good)


main()
