"""Part 5: one step of QLoRA over one sequence of 262,144 tokens, LLaMA-2-7B's shapes, on a GPU of 80 GB; before it the same with one layer."""
import json

from kit import Command, Step
from speed import DOES_NOT_FIT, LLAMA_7B, SMALL, condition_of, gib

LENGTH = 262_144
LAYERS = (1, 32)


def folder(c, layers):
    return c.work / f"long-{layers}"


def prepare(c, layers, length):
    """Weights in 4 bits, two sequences and a run.json."""
    at = folder(c, layers)
    at.mkdir(parents=True, exist_ok=True)
    config = {**LLAMA_7B, **(SMALL if c.tiny else {}), "num_hidden_layers": layers, "max_position_embeddings": length}
    (at / "config.json").write_text(json.dumps(config))
    if not (at / "model").exists():
        c.call([c.ft, "init", "--load-in-4bit", "--config", at / "config.json", "--output", at / "model"])
    c.write_tokens(at / "train.jsonl", config["vocab_size"], 2, length)
    run = {"model": {"model_name_or_path": str(at / "model")}, "device": c.device, "lora": {"r": 16, "lora_alpha": 32, "target_modules": "all-linear"},
           "data": {"datasets": [{"path": str(at / "train.jsonl")}], "max_seq_length": length, "shuffle": False},
           "training": {"output_dir": str(at / "run"), "per_device_train_batch_size": 1, "max_steps": 1, "learning_rate": 1e-4, "bf16": True,
                        "gradient_checkpointing": "auto"},
           "logging": {"logging_steps": 1, "progress": "plain"}, "checkpointing": {"save_strategy": "no"}}
    (at / "run.json").write_text(json.dumps(run, indent=1))


def one_step(c, layers):
    length = 256 if c.tiny else LENGTH

    def check(outcomes):
        rows = [json.loads(line) for line in open(folder(c, layers) / "run/log.jsonl")]
        step = next(r for r in rows if "loss" in r)
        planned = next((r["memory"]["total"] for r in reversed(rows) if isinstance(r.get("memory"), dict)), None)
        return (f"a step of {length} tokens in {length / step['tokens_per_second']:.1f} s, {step['tokens_per_second']:.0f} tok/s, loss {step['loss']:.4f}, "
                f"{gib(outcomes[0].gpu_gib)} GiB (ft's plan: {gib(planned / 2**30 if planned else None)})\n{condition_of(c, outcomes[0])}{outcomes[0].text}")

    words = [*c.ft_words, "train", "--config", folder(c, layers) / "run.json", "--overwrite"]
    return Step(f"{layers} layer{'s' * (layers > 1)}, {length} tokens", [[Command(words, c.environment, watch_gpu=True)]], 420,
                lambda: prepare(c, layers, length), check, skips=DOES_NOT_FIT)


def steps(c):
    for layers in LAYERS[:1] if c.tiny else LAYERS:
        yield one_step(c, layers)
