#!/usr/bin/env python3
"""Time of a training step of each family on one thread, in ft and in transformers, in turn: full fine-tuning in float32, AdamW.

    speed.py FT FOLDER [--families A,B] [--rounds 2]     (a Python with tests/golden/requirements.txt)

Times are CPU time, so that other work on the machine counts little: ft's is that of a run of 6 steps less that of a run of 2, over 4; transformers' that of
4 steps after one. The best of all rounds. transformers has sdpa attention where a model takes it, the faster of its ways to compute experts, and
PyTorch's fused AdamW. Prints a row of a table for each family.
"""
import argparse
import json
import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
BATCH, LENGTH, VOCABULARY = 2, 256, 1024
COMMON = {"vocab_size": VOCABULARY, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
          "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
NETS = {"head_dim": 32, "linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_num_key_heads": 8, "linear_num_value_heads": 16,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
ROUTED = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "n_shared_experts": 1, "first_k_dense_replace": 1,
          "routed_scaling_factor": 1.0, "n_group": 1, "topk_group": 1, "num_key_value_heads": 8, "q_lora_rank": 96, "kv_lora_rank": 64,
          "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32}
GEMMA4 = {"head_dim": 32, "global_head_dim": 64, "sliding_window": 64, "vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 0,
          "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]}
MODELS = {
    "LLaMA": ("llama", {}),
    "Gemma 4": ("gemma4_text", {**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 2}),
    "Gemma 4 E": ("gemma4_text", {**GEMMA4, "hidden_size_per_layer_input": 32, "use_double_wide_mlp": False,
                                  "layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 2}),
    "Gemma 4 with experts": ("gemma4_text", {**GEMMA4, "enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 128}),
    "gpt-oss": ("gpt_oss", {"head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 128, "sliding_window": 64}),
    "DeepSeek V2": ("deepseek_v2", {**ROUTED, "topk_method": "greedy", "norm_topk_prob": False}),
    "DeepSeek V3": ("deepseek_v3", {**ROUTED, "n_group": 2, "topk_group": 1}),
    "GLM-4.7-Flash": ("glm4_moe_lite", {**ROUTED, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}),
    "GLM-4.5": ("glm4_moe", {**{k: v for k, v in ROUTED.items() if "lora" not in k and "qk" not in k and "v_head" not in k}, "num_key_value_heads": 4,
                             "head_dim": 32, "use_qk_norm": True}),
    "Qwen3.5": ("qwen3_5_text", NETS),
    "Qwen3.5 with experts": ("qwen3_5_moe_text", {**NETS, **EXPERTS, "shared_expert_intermediate_size": 128}),
    "Qwen3-Next": ("qwen3_next", {**NETS, **EXPERTS, "shared_expert_intermediate_size": 128}),
}


def ft_seconds(ft, folder, steps):
    """CPU seconds of a run of so many steps."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([ft, "train", "--config", "run.json", f"training.max_steps={steps}"], cwd=folder, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def prepare(ft, folder, kind, config, rows):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = transformers.AutoConfig.for_model(kind, **{**COMMON, **config})
    made.architectures = [transformers.AutoModelForCausalLM._model_mapping[type(made)].__name__]
    made.save_pretrained(folder)
    subprocess.run([ft, "init", "--config", folder / "config.json", "--output", folder / "model", "--dtype", "float32"], check=True, capture_output=True)
    (folder / "train.jsonl").write_text("".join(json.dumps({"input_ids": r, "labels": r}) + "\n" for r in rows))
    (folder / "run.json").write_text(json.dumps({
        "finetuning_type": "full", "model": {"model_name_or_path": "model"},
        "data": {"datasets": [{"path": "train.jsonl", "type": "tokenized"}], "max_seq_length": LENGTH, "shuffle": False},
        "training": {"output_dir": "out", "per_device_train_batch_size": BATCH, "learning_rate": 1e-4, "bf16": False, "gradient_checkpointing": False},
        "logging": {"progress": "none"}, "checkpointing": {"save_strategy": "no"}}))


class Peer:
    def __init__(self, folder, experts):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).train()
        if experts:
            self.model.set_experts_implementation(experts)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)

    def step(self, rows):
        ids = torch.tensor(rows)
        self.model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def seconds(self, rows, steps):
        self.step(rows)
        before = time.process_time()
        for _ in range(steps):
            self.step(rows)
        return (time.process_time() - before) / steps


def peers(folder, mixture):
    """transformers' model once for each way to compute experts that works here."""
    for experts in (("eager", "grouped_mm") if mixture else (None,)):
        try:
            yield Peer(folder, experts)
        except ValueError:
            continue


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("ft", type=Path)
    a.add_argument("folder", type=Path)
    a.add_argument("--families", default=",".join(MODELS))
    a.add_argument("--rounds", type=int, default=2)
    a = a.parse_args()
    ft, g = a.ft.resolve(), torch.Generator().manual_seed(1)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})      # one thread, here and in ft
    rows = torch.randint(3, VOCABULARY, (6 * BATCH, LENGTH), generator=g).tolist()
    print("| family | parameters | ft, tokens/s | transformers, tokens/s | ft is faster by |\n|---|---|---|---|---|", flush=True)
    for name in a.families.split(","):
        kind, config = MODELS[name]
        folder = a.folder / kind
        prepare(ft, folder, kind, config, rows)
        theirs = list(peers(folder, any("expert" in k for k in config)))
        best = {"ft": float("inf"), "peer": float("inf")}
        for _ in range(a.rounds):
            best["ft"] = min(best["ft"], (ft_seconds(ft, folder, 6) - ft_seconds(ft, folder, 2)) / 4)
            for peer in theirs:
                try:
                    best["peer"] = min(best["peer"], peer.seconds(rows[:BATCH], 4))
                except RuntimeError:                 # products of this kind are not there on every CPU
                    continue
        count, tokens = sum(p.numel() for p in theirs[0].model.parameters()), BATCH * LENGTH
        print(f"| {name} | {count / 1e6:.1f} M | {tokens / best['ft']:,.0f} | {tokens / best['peer']:,.0f} | {best['peer'] / best['ft']:.2f} |", flush=True)


main()
