#!/usr/bin/env python3
"""Fine-tunes Qwen3-30B-A3B's shape on this machine: random weights in 4 bits (16 GB on disk), LoRA r16 on attention and experts, bf16,
one packed micro-batch of 2,048 tokens (--tokens) a step. Prints the peak of resident memory and the share of the register tile's speed that the
FLOPs of the active experts reach.

    run.py FT [--data FOLDER] [--layers 48] [--tokens 2048] [--steps 4] [SECTION.SETTING=VALUE ...] [--result FILE]

FOLDER keeps the model between runs, and the frozen weights are read from it during training. Settings that follow are the run's, as on
ft's command line. Fewer layers try the script: the widths, and so the share, are the same. Standard library only.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "cpu_vs_pytorch"))
from provenance import Result  # noqa: E402
from run import told, watch  # noqa: E402

SAMPLE = 512
SHAPE = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "head_dim": 128,
         "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
         "num_experts_per_tok": 8, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "hidden_act": "silu",
         "max_position_embeddings": 40960, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6, "attention_bias": False,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 151643, "eos_token_id": 151645}


def make(a, folder):
    """The model, and tokens of which few are frequent, so that there is something to learn."""
    a.data.mkdir(parents=True, exist_ok=True)
    if not (folder / "config.json").exists():
        (a.data / "config.json").write_text(json.dumps({**SHAPE, "num_hidden_layers": a.layers}))
        subprocess.run([a.ft, "init", "--config", a.data / "config.json", "--output", folder, "--load-in-4bit", "--double"], check=True)
    draw, sample = random.Random(1), min(SAMPLE, a.tokens)
    with open(a.data / "train.jsonl", "w") as f:
        for _ in range(a.steps * a.tokens // sample):
            ids = [min(SHAPE["vocab_size"] - 1, 3 + int(SHAPE["vocab_size"] * draw.random() ** 4)) for _ in range(sample)]
            f.write(json.dumps({"input_ids": ids, "labels": ids}) + "\n")


def config(a, folder):
    files = {"device": "nvme", "nvme_path": str(a.data)}
    return {"model": {"model_name_or_path": str(folder)},
            "lora": {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"],
                     "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]},
            "data": {"datasets": [{"path": str(a.data / "train.jsonl"), "type": "tokenized"}], "max_seq_length": a.tokens, "packing": True,
                     "shuffle": False},
            "training": {"output_dir": str(a.out), "per_device_train_batch_size": 1, "gradient_accumulation_steps": 1, "max_steps": a.steps,
                         "learning_rate": 1e-4, "lr_scheduler_type": "constant", "weight_decay": 0.0, "max_grad_norm": 1.0, "bf16": True,
                         "gradient_checkpointing": False},
            "zero_optimization": {"offload_param": files},
            "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"}}


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("ft", type=Path)
    a.add_argument("settings", nargs="*")
    a.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "ft-bench-moe")
    a.add_argument("--layers", type=int, default=48)
    a.add_argument("--tokens", type=int, default=2048)
    a.add_argument("--steps", type=int, default=4)
    a.add_argument("--result", type=Path, help="write what is printed to this file as well")
    a = a.parse_args()
    a.ft, a.data = a.ft.resolve(), a.data.resolve()
    a.out = Path(tempfile.mkdtemp(prefix="ft-bench-moe-out-")) / "out"
    folder = a.data / f"model-{a.layers}"
    make(a, folder)
    run = a.data / "run.json"
    run.write_text(json.dumps(config(a, folder), indent=1))

    words = " ".join(a.settings)
    result = Result(f"bench/moe/run.py FT --layers {a.layers} --tokens {a.tokens} --steps {a.steps} {words}".rstrip())
    say = result.say
    plan = told(a.ft, "plan", run, a.settings)
    say(f"planned   {plan['total'] / 2**30:.2f} GiB; weights {plan['weights'] / 2**30:.2f}, activations {plan['activations'] / 2**30:.2f}, "
        f"optimizer {plan['optimizer'] / 2**30:.2f}, communication {plan['communication'] / 2**30:.2f}")
    with open(a.data / "stderr.txt", "w") as log:
        got = watch([str(a.ft), "train", "--config", str(run), *a.settings], a.tokens, follow=a.out / "log.jsonl", log=log)
    for number, (loss, seconds) in enumerate(zip(got["losses"], got["seconds"])):
        say(f"step {number + 1}    {a.tokens / seconds:.1f} tok/s, loss {loss:.6f}")
    peak, flops = told(a.ft, "profile", run, a.settings)["peak_flops"], plan["flops_per_token"]
    rate = got["tokens_per_second"] * flops
    say(f"speed     {got['tokens_per_second']:.1f} tok/s x {flops / 1e9:.2f} GFLOP = {rate / 1e9:.0f} GFLOP/s of {peak / 1e9:.0f} of the "
        f"register tile: {rate / peak:.2f}")
    say(f"memory    {got['peak_gib']:.2f} GiB resident at most")
    say(f"load after {os.getloadavg()[0]:.1f}")
    result.write(a.result)


if __name__ == "__main__":
    main()
