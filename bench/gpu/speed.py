"""Part 2: how fast, and in how much memory, beside PyTorch + transformers + PEFT on the same weights and tokens."""
import json
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path

from kit import Command, Step

HERE = Path(__file__).resolve().parent
LLAMA_7B = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
            "hidden_act": "silu", "torch_dtype": "bfloat16", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
SMALL = {"vocab_size": 512, "hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4}
T5_LARGE = {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "vocab_size": 32128, "d_model": 1024, "d_kv": 64, "d_ff": 4096,
            "num_layers": 24, "num_heads": 16, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "dropout_rate": 0.1,
            "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu", "torch_dtype": "bfloat16", "tie_word_embeddings": True, "is_encoder_decoder": True,
            "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
T5_SMALL = {"vocab_size": 512, "d_model": 128, "d_kv": 32, "d_ff": 352, "num_layers": 2, "num_heads": 4}
SHAPES = {"llama": (LLAMA_7B, SMALL), "t5": (T5_LARGE, T5_SMALL)}


@dataclass
class Work:
    name: str
    kind: str                                        # lora, qlora, full
    batch: int
    length: int
    recompute: bool = False
    model: str = "llama"
    target: int = 0                                  # tokens of T5's targets; its sources have `length`

    def lengths(self, c):
        """Of a sequence and of its target."""
        return (64, 16 if self.target else 0) if c.tiny else (self.length, self.target)


WORKS = [Work("LoRA r16, 2 x 4096", "lora", 2, 4096), Work("QLoRA NF4, 2 x 4096", "qlora", 2, 4096),
         Work("QLoRA NF4, 1 x 4096, recomputed", "qlora", 1, 4096, recompute=True),
         Work("full, 2 x 4096, recomputed", "full", 2, 4096, recompute=True),
         Work("T5-Large LoRA r16, 16 x (512 + 128)", "lora", 16, 512, model="t5", target=128)]


def make_model(c, w):
    folder, (large, small) = c.work / w.model, SHAPES[w.model]
    if (folder / "train.jsonl").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    shape = {**large, **(small if c.tiny else {})}
    (folder / "config.json").write_text(json.dumps(shape))
    shutil.rmtree(folder / "model", ignore_errors=True)
    c.call([c.ft, "init", "--config", folder / "config.json", "--output", folder / "model"])
    length, target = w.lengths(c)
    c.write_tokens(folder / "train.jsonl", shape["vocab_size"], 16 * w.batch if w.target else 64, length, target)


def run_json(c, w):
    name = c.work / f"{w.model}-{w.kind}-{w.batch}-{w.length}{'-recomputed' if w.recompute else ''}.json"
    length, target = w.lengths(c)
    lengths = {"max_source_length": length, "max_target_length": target} if target else {"max_seq_length": length}
    run = {"model": {"model_name_or_path": str(c.work / w.model / "model")}, "finetuning_type": "full" if w.kind == "full" else "lora", "device": c.device,
           "data": {"datasets": [{"path": str(c.work / w.model / "train.jsonl"), "type": "tokenized"}], **lengths, "shuffle": False},
           "training": {"output_dir": str(name.with_suffix("")), "per_device_train_batch_size": w.batch, "max_steps": c.steps, "learning_rate": 1e-4,
                        "lr_scheduler_type": "constant", "weight_decay": 0.0, "max_grad_norm": 1.0, "bf16": True, "gradient_checkpointing": w.recompute},
           "logging": {"logging_steps": 1, "progress": "plain"}, "checkpointing": {"save_strategy": "no"}}
    if w.kind != "full":
        run["lora"] = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}
    if w.kind == "qlora":
        run["quantization"] = {"load_in_4bit": True, "bnb_4bit_use_double_quant": True}
    return name, run


def ft_row(c, w, outcome):
    name, _ = run_json(c, w)
    rows = [json.loads(line) for line in open(name.with_suffix("") / "log.jsonl")]
    steps = [r for r in rows if "loss" in r]
    memory = next((r["memory"] for r in reversed(rows) if isinstance(r.get("memory"), dict)), {})
    planned = memory.get("total")
    return {"tokens_per_second": statistics.median(r["tokens_per_second"] for r in steps[1:]), "peak_gib": outcome.gpu_gib,
            "planned_gib": planned / 2**30 if planned else None, "first_loss": steps[0]["loss"], "seconds": outcome.seconds}


def gib(value):
    return "?" if value is None else f"{value:.1f}"


def compare(c, w, table, compiled=False):
    name, run = run_json(c, w)

    def prepare():
        make_model(c, w)
        name.write_text(json.dumps(run, indent=1))

    ours = Command([*c.ft_words, "train", "--config", name, "--overwrite"], c.environment, watch_gpu=True)

    def check_ours(outcomes):
        r = ft_row(c, w, outcomes[0])
        table.append((w.name, "ft", r))
        return f"{r['tokens_per_second']:.0f} tok/s, {gib(r['peak_gib'])} GiB (ft's plan: {gib(r['planned_gib'])})"

    no_peer = c.no_peer or ("" if w.kind != "qlora" or "bitsandbytes" in c.versions else f"{c.python} has no bitsandbytes")
    if not compiled:
        yield Step(f"ft: {w.name}", [[ours]], 150, prepare, check_ours)
    length, target = w.lengths(c)
    words = [c.python, HERE / "peer.py", "train", c.work / w.model / "model", c.work / w.model / "train.jsonl", "--kind", w.kind, "--batch", w.batch,
             "--length", length, "--target", target, "--steps", c.steps, "--device", c.device, *(["--recompute"] if w.recompute else []),
             *(["--compile"] if compiled else [])]
    label = "PyTorch" + (", compiled" if compiled else "")

    def check_peer(outcomes, label=label):
        r = outcomes[0].rows()[-1]
        assert "error" not in r, r.get("error")
        table.append((w.name, label, {**r, "peak_gib": outcomes[0].gpu_gib}))
        ft = next((t for n, who, t in table if n == w.name and who == "ft"), None)
        ratio = f", ft is {ft['tokens_per_second'] / r['tokens_per_second']:.2f} times as fast" if ft else ""
        return f"{r['tokens_per_second']:.0f} tok/s, {gib(outcomes[0].gpu_gib)} GiB{ratio}"

    yield Step(f"{label}: {w.name}", [[Command(words, watch_gpu=True)]], 150, prepare, check_peer, no_peer)


def with_setting(c, w, table, what, setting, missing):
    name, run = run_json(c, w)
    ours = Command([*c.ft_words, "train", "--config", name, "--overwrite", setting], c.environment, watch_gpu=True)

    def check(outcomes):
        r = ft_row(c, w, outcomes[0])
        table.append((w.name, f"ft, {what}", r))
        return f"{r['tokens_per_second']:.0f} tok/s, {gib(r['peak_gib'])} GiB"

    return Step(f"ft with {what}: {w.name}", [[ours]], 150, lambda: (make_model(c, w), name.write_text(json.dumps(run, indent=1))), check, missing)


def markdown(table):
    lines = ["| work | program | tok/s | GPU GiB | ft's plan | first loss |", "|---|---|---|---|---|---|"]
    for name, who, r in table:
        lines.append(f"| {name} | {who} | {r['tokens_per_second']:.0f} | {gib(r['peak_gib'])} | {gib(r.get('planned_gib'))} | {r['first_loss']:.4f} |")
    return "\n".join(lines)


def profile(text, ceilings):
    """The table of --trace, each line with how much of the measured ceilings it reaches."""
    lines, within = [], False
    for line in text.splitlines():
        words = line.split()
        if within and len(words) != 6:
            break
        within = within or words[:2] == ["op", "calls"]
        if within and words[0] != "op":
            flops, bandwidth = float(words[4]) / 1e3, float(words[5])
            of = [f"{100 * value / ceilings[unit]:.0f} % of {unit}" for unit, value in (("TFLOP/s", flops), ("GB/s", bandwidth)) if ceilings.get(unit)]
            line = (line + "   " + ", ".join(of)).rstrip()
        if within:
            lines.append(line)
    assert lines, "there is no table of computations"
    return "by computation, waiting for each\n" + "\n".join(lines)


def steps(c, table):
    ops = c.programs / "bench_gpu"
    no_gpu = "" if c.device == "cuda" else "needs a GPU"
    ceilings = {}                                    # {"GB/s": of copies, "TFLOP/s": of the best product}

    def check_ceilings(outcomes):
        rows = [r for r in outcomes[0].rows() if "value" in r]
        for r in rows:
            if not r["name"].startswith("attention"):
                ceilings[r["unit"]] = max(ceilings.get(r["unit"], 0), r["value"])
        assert rows, "nothing was measured: " + outcomes[0].text[-300:]
        return "; ".join(f"{r['name']} {r['value']:.0f} {r['unit']}" for r in rows)

    yield Step("ceilings", [[Command([c.python, HERE / "peer.py", "ceilings", "--device", c.device])]], 90, check=check_ceilings, missing=c.no_peer or no_gpu)
    yield Step("computations of a block", [[Command([ops], c.environment)]], 60, check=lambda o: o[0].text,
               missing=no_gpu or ("" if ops.exists() else f"there is no bench_gpu in {c.programs}"))
    first, run = run_json(c, WORKS[0])

    def prepare():
        make_model(c, WORKS[0])
        first.write_text(json.dumps(run, indent=1))

    yield Step("model", [[Command([*c.ft_words, "plan", "--config", first], c.environment)]], 150, prepare, lambda o: "")
    for w in WORKS:
        yield from compare(c, w, table)
    yield with_setting(c, WORKS[0], table, "cuDNN", "model.attn_implementation=cudnn", no_gpu)
    # The file says how long each algorithm took.
    yield with_setting(c, WORKS[0], table, "measured products", f"training.gemm_tuning={c.results / 'gemm_tuning.jsonl'}", no_gpu)
    trace = [*c.ft_words, "train", "--config", first, "--overwrite", "--trace", c.results / "trace.json"]
    yield Step("profile by computation", [[Command(trace, c.environment)]], 90, prepare, lambda o: profile(o[0].text, ceilings))
    yield from compare(c, WORKS[0], table, compiled=True)
    nsys = c.find("nsys")
    yield Step("profile by kernel", [[Command([nsys or "nsys", "profile", "--stats=true", "--force-overwrite=true", "-o", c.work / "profile", *c.ft_words, "train",
                                               "--config", first, "--overwrite"], c.environment)]], 120, prepare, lambda o: o[0].text,
               no_gpu or ("" if nsys else "there is no nsys"))
