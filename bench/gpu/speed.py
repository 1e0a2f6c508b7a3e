"""Part 2: how fast, and in how much memory, beside PyTorch + transformers + PEFT on the same weights and tokens."""
import gzip
import json
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path

from kit import Command, Skipped, Step

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
SHAPES = {"llama": (LLAMA_7B, SMALL), "llama8": ({**LLAMA_7B, "num_hidden_layers": 8}, SMALL), "t5": (T5_LARGE, T5_SMALL)}
DOES_NOT_FIT = {5: "it does not fit"}                # ft's exit code
TRACED = 3                                           # steps that --trace notes, after the first


@dataclass
class Work:
    name: str
    kind: str                                        # lora, qlora, full
    batch: int
    length: int
    recompute: object = False                        # training.gradient_checkpointing
    model: str = "llama"
    target: int = 0                                  # tokens of T5's targets; its sources have `length`
    steps: int = 15                                  # of ft; PyTorch does six
    settings: tuple = ()                             # more, as on the command line
    trace: bool = False
    objective: str = "sft"                           # dpo: `batch` pairs, each answer of `length` with its prompt, a quarter of it

    def lengths(self, c):
        """Of a sequence and of its target."""
        return (64, 16 if self.target else 0) if c.tiny else (self.length, self.target)

    def key(self):
        """For names of files."""
        recompute = {True: "-recomputed", "offload": "-offload"}.get(self.recompute, "")
        more = "-dpo" if self.objective == "dpo" else recompute or ("-8bit" if self.settings else "")
        return f"{self.model}-{self.kind}-{self.batch}-{self.length}{more}"


WORKS = [Work("LoRA r16, 2 x 4096", "lora", 2, 4096, trace=True), Work("QLoRA NF4, 2 x 4096", "qlora", 2, 4096, trace=True),
         Work("QLoRA NF4, 1 x 4096, recomputed", "qlora", 1, 4096, recompute=True),
         Work("full, 2 x 4096, recomputed as needed", "full", 2, 4096, recompute="auto", steps=6),
         Work("T5-Large LoRA r16, 16 x (512 + 128)", "lora", 16, 512, model="t5", target=128, steps=30, trace=True),
         Work("full, 2 x 4096, AdamW in 8 bits", "full", 2, 4096, recompute="auto", steps=6, settings=("training.optim=adamw_8bit",))]
OFFLOADED = Work("QLoRA NF4, 1 x 4096, recomputed, inputs on the host", "qlora", 1, 4096, recompute="offload")
DPO = Work("DPO, LoRA r16, 4 pairs of 2 x 1024", "lora", 4, 1024, objective="dpo")
COMPARED = [Work("LoRA r16, 2 x 4096, 8 layers", "lora", 2, 4096, model="llama8"), Work("QLoRA NF4, 2 x 4096, 8 layers", "qlora", 2, 4096, model="llama8"),
            Work("full, 2 x 4096, 8 layers", "full", 2, 4096, model="llama8"),
            Work("T5-Large LoRA r16, 16 x (512 + 128)", "lora", 16, 512, model="t5", target=128)]


def init(c, model):
    """The command that makes its weights at random; None: they are there."""
    folder, (large, small) = c.work / model, SHAPES[model]
    if (folder / "model/model.safetensors.index.json").exists() or (folder / "model/model.safetensors").exists():
        return None
    if not c.dry:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({**large, **(small if c.tiny else {})}))
        shutil.rmtree(folder / "model", ignore_errors=True)
    return Command([c.ft, "init", "--config", folder / "config.json", "--output", folder / "model"])


def tokens_of(c, w):
    length, target = w.lengths(c)
    return c.work / w.model / f"{'pairs' if w.objective == 'dpo' else 'train'}-{length}-{target}.jsonl"


def make_pairs(file):
    """Of rows: the first quarter asks, the rest answers; forwards it is preferred to backwards."""
    rows = [json.loads(line)["input_ids"] for line in open(file)]
    pairs = [{"prompt_ids": ids[:len(ids) // 4], "chosen_ids": ids[len(ids) // 4:], "rejected_ids": ids[len(ids) // 4:][::-1]} for ids in rows]
    file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))


def make_run(c, w, steps=None):
    """Writes its tokens and its run.json, whose name is returned."""
    name, folder = c.work / f"{w.key()}.json", c.work / w.model
    if c.dry:
        return name
    folder.mkdir(parents=True, exist_ok=True)
    missing = init(c, w.model)
    if missing:
        c.call(missing.words)
    length, target = w.lengths(c)
    tokens = tokens_of(c, w)
    if not tokens.exists():
        vocabulary = {**SHAPES[w.model][0], **(SHAPES[w.model][1] if c.tiny else {})}["vocab_size"]
        c.write_tokens(tokens, vocabulary, 16 * w.batch if w.target or w.objective == "dpo" else 64, length, target)
        if w.objective == "dpo":
            make_pairs(tokens)
    lengths = {"max_source_length": length, "max_target_length": target} if target else {"max_seq_length": length}
    run = {"model": {"model_name_or_path": str(folder / "model")}, "finetuning_type": "full" if w.kind == "full" else "lora", "device": c.device,
           "data": {"datasets": [{"path": str(tokens)}], **lengths, "shuffle": False},
           "training": {"output_dir": str(name.with_suffix("")), "per_device_train_batch_size": w.batch, "max_steps": steps or c.steps or w.steps,
                        "learning_rate": 1e-4, "lr_scheduler_type": "constant", "weight_decay": 0.0, "max_grad_norm": 1.0, "bf16": True,
                        "gradient_checkpointing": w.recompute},
           "logging": {"logging_steps": 1, "progress": "plain"}, "checkpointing": {"save_strategy": "no"}, "objective": {"type": w.objective}}
    if w.kind != "full":
        run["lora"] = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}
    if w.kind == "qlora":
        run["quantization"] = {"load_in_4bit": True, "bnb_4bit_use_double_quant": True}
    name.write_text(json.dumps(run, indent=1))
    return name


def train(c, w, *more, ft=None):
    name = c.work / f"{w.key()}.json"
    words = [*(ft or c.ft_words), "train", "--config", name, "--overwrite", *w.settings, *more]
    return Command(words, c.environment, watch_gpu=True, watch=name.with_suffix("") / "log.jsonl")


def seconds_of_steps(outcome):
    """By the wall clock, from row to row of the log: whatever ft itself says."""
    times = outcome.line_times
    return [b - a for a, b in zip(times, times[1:])]


def ft_row(c, w, outcome):
    rows = [json.loads(line) for line in open((c.work / w.key()) / "log.jsonl")]
    steps = [r for r in rows if "loss" in r]
    memory = next((r["memory"] for r in reversed(rows) if isinstance(r.get("memory"), dict)), {})
    planned, flops, tokens = memory.get("total"), rows[-1].get("total_flos"), steps[-1]["num_input_tokens_seen"]
    speed = statistics.median(r["tokens_per_second"] for r in steps[1:])
    a_step = w.batch * sum(w.lengths(c)) * (2 if w.objective == "dpo" else 1)
    begun, ended = (outcome.line_times[i] for i in (0, len(steps) - 1)) if len(outcome.line_times) >= len(steps) else (None, None)
    row = {"tokens_per_second": speed, "flops_per_second": speed * flops / tokens if flops else None, "peak_gib": outcome.gpu_gib,
           "planned_gib": planned / 2**30 if planned else None, "first_loss": steps[0]["loss"], "last_loss": steps[-1]["loss"], "seconds": outcome.seconds,
           "cuda": next((line for line in outcome.text.splitlines() if line.startswith("CUDA: ")), ""),
           "wall_clock": a_step * (len(steps) - 1) / (ended - begun) if ended and ended > begun else None, "begun": begun, "ended": ended}
    if w.objective == "dpo":                         # prompts count as often as answers, as the other's do
        row["tokens_per_second"] = row["wall_clock"] or speed
    return row


def gib(value):
    return "?" if value is None else f"{value:.1f}"


def with_condition(c, row):
    return {**row, "condition": c.clocks.between(row.get("begun"), row.get("ended")) if c.clocks else None}


def condition_of(c, outcome):
    """A line for all of a program's time."""
    found = c.clocks.between(outcome.ended - outcome.seconds, outcome.ended) if c.clocks else None
    return found.text() + "\n\n" if found else ""


def said(c, row):
    parts = [f"{row['tokens_per_second']:.0f} tok/s"]
    if row.get("wall_clock"):
        parts[0] += f" ({row['wall_clock']:.0f} by the wall clock)"
    share = share_of(c, row)
    if share:
        parts.append(share)
    parts.append(f"{gib(row['peak_gib'])} GiB" + (f" (ft's plan: {gib(row['planned_gib'])})" if row.get("planned_gib") else ""))
    if row.get("cuda"):
        parts.append(row["cuda"])
    if row["condition"]:
        parts.append(row["condition"].text())
    return ", ".join(parts)


def share_of(c, row):
    limit = c.ceilings.get("TFLOP/s")
    return f"{100 * row['flops_per_second'] / 1e12 / limit:.0f} % of what lasts" if limit and row.get("flops_per_second") else ""


def measure(c, w, table, what="", *more, missing=""):
    def check(outcomes):
        row = with_condition(c, ft_row(c, w, outcomes[0]))
        table.append((w.name, "ft" + (f", {what}" if what else ""), row))
        return said(c, row)

    words = (*more, "logging.memory_breakdown=true")
    return Step(f"ft{' with ' + what if what else ''}: {w.name}", [[train(c, w, *words)]], 120, lambda: make_run(c, w), check, missing, skips=DOES_NOT_FIT)


def beside(c, w, table, *more, label="PyTorch", missing=""):
    """The same with PyTorch."""
    length, target = w.lengths(c)
    words = [c.python, HERE / "peer.py", "dpo" if w.objective == "dpo" else "train", c.work / w.model / "model", tokens_of(c, w), "--kind", w.kind,
             "--batch", w.batch, "--length", length, "--target", target, "--steps", c.steps or 6, "--device", c.device,
             *(["--recompute"] if w.recompute is True else []), *more]

    def check(outcomes):
        r = outcomes[0].rows()[-1]
        if "OutOfMemory" in r.get("error", ""):
            raise Skipped("it does not fit")
        assert "error" not in r, r.get("error")
        row = with_condition(c, {**r, "peak_gib": outcomes[0].gpu_gib})
        table.append((w.name, label, row))
        ft = next((t for n, who, t in table[:-1] if n == w.name and who == "ft"), None)
        if ft and ft.get("flops_per_second"):        # the same model's
            row["flops_per_second"] = r["tokens_per_second"] * ft["flops_per_second"] / ft["tokens_per_second"]
        ratio = f", ft is {(ft['wall_clock'] or ft['tokens_per_second']) / r['tokens_per_second']:.2f} times as fast" if ft else ""
        return said(c, row) + ratio

    missing = missing or c.no_peer or ("" if w.kind != "qlora" or "bitsandbytes" in c.versions else f"{c.python} has no bitsandbytes")
    return Step(f"{label}: {w.name}", [[Command(words, watch_gpu=True)]], 120, lambda: make_run(c, w), check, missing)


def markdown(c, table):
    lines = ["| work | program | tok/s | of what lasts | GPU GiB | ft's plan | first loss | SM MHz | W | C |", "|---|---|---|---|---|---|---|---|---|---|"]
    for name, who, r in table:
        share = share_of(c, r).split(" of")[0]
        loss = f"{r['first_loss']:.4f}" if "first_loss" in r else ""
        clock = with_condition(c, r)["condition"]   # more may be known by now
        card = f"{clock.mhz:.0f} | {clock.watts:.0f} | {clock.celsius:.0f}" if clock else "| | "
        lines.append(f"| {name} | {who} | {r['tokens_per_second']:.0f} | {share} | {gib(r['peak_gib'])} | {gib(r.get('planned_gib'))} | {loss} | {card} |")
    return "\n".join(lines)


def profile(text, ceilings):
    """The table of --trace, each line with how much of what the GPU sustains it reaches."""
    lines, within = [], False
    for line in text.splitlines():
        words = line.split()
        if within and len(words) != 6:
            break
        within = within or words[:2] == ["op", "calls"]
        if within and words[0] not in ("op", "gaps"):
            flops, bandwidth = float(words[4]) / 1e3, float(words[5])
            of = [f"{100 * value / ceilings[unit]:.0f} % of {unit}" for unit, value in (("TFLOP/s", flops), ("GB/s", bandwidth)) if ceilings.get(unit)]
            line = (line + "   " + ", ".join(of)).rstrip()
        if within:
            lines.append(line)
    assert lines, "there is no table of computations"
    return "\n".join(lines)


def trace(c, w, table):
    """Traced steps beside the plain ones after them; the timeline is kept, compressed."""
    file = c.results / f"trace_{w.key()}.json"

    def check(outcomes):
        table_of_ops = profile(outcomes[0].text, c.ceilings)
        with open(file, "rb") as plain, gzip.open(f"{file}.gz", "wb") as packed:
            shutil.copyfileobj(plain, packed)
        file.unlink()
        rows = [json.loads(line) for line in open((c.work / w.key()) / "log.jsonl")]
        speeds = [r["tokens_per_second"] for r in rows if "loss" in r]
        traced, plain = statistics.median(speeds[1:1 + TRACED]), statistics.median(speeds[2 + TRACED:] or speeds[-1:])
        return f"by computation, of {TRACED} steps; a traced step takes {100 * (plain / traced - 1):+.1f} % more than a plain one\n{condition_of(c, outcomes[0])}{table_of_ops}"

    steps = TRACED + 7
    return Step(f"profile by computation: {w.name}", [[train(c, w, "--trace", file, f"training.max_steps={steps}")]], 90, lambda: make_run(c, w), check,
                skips=DOES_NOT_FIT)


def ceilings_and_models(c, models, *more):
    """The weights are made, on the CPU, while the GPU is looked at."""
    words = [c.python, HERE / "ceilings.py", "--device", c.device, *more]
    commands = [command for command in [None if c.no_peer else Command(words), *(init(c, m) for m in models)] if command]

    def check(outcomes):
        rows = [] if c.no_peer else outcomes[0].rows()
        for r in (r for r in rows if "value" in r):
            if r["name"] == "copy" or r["name"].startswith("product ") and "zeros" not in r["name"]:
                c.ceilings[r["unit"]] = max(c.ceilings.get(r["unit"], 0), r["value"])
        if not c.no_peer:
            assert c.ceilings, "nothing was measured: " + outcomes[0].text[-300:]
        lines = ["what lasts: " + ", ".join(f"{v:.0f} {u}" for u, v in c.ceilings.items()), "",
                 "| computation | lasting | burst | us | |", "|---|---|---|---|---|"]
        for r in rows:
            clock = c.clocks.between(r.get("begun"), r.get("ended")) if c.clocks else None
            error = f"error {r['error']:.1e} " if "error" in r and "value" in r else ""
            lines.append(f"| {r['name']} | {r['value']:.0f} {r['unit']} | {r['first']:.0f} | {r['us']:.0f} | {error}{clock.text() if clock else ''} |"
                         if "value" in r else f"| {r.get('name')} {r.get('error')} | | | | |")
        return "\n".join(lines)

    return Step("ceilings, and models are made", [commands], 200, check=check, missing="" if commands else "the models are there; no PyTorch")


def steps(c, table):
    ops = c.programs / "bench_gpu"
    no_gpu = "" if c.device == "cuda" else "needs a GPU"
    yield ceilings_and_models(c, ("llama", "t5"), *(["--all"] if c.all else []))
    yield Step("computations of a block", [[Command([ops], c.environment)]], 60, check=lambda o: condition_of(c, o[0]) + o[0].text,
               missing=no_gpu or ("" if ops.exists() else f"there is no bench_gpu in {c.programs}"))
    for w in (*WORKS[:5], OFFLOADED):
        yield measure(c, w, table)
    for w in WORKS:
        if w.trace:
            yield trace(c, w, table)
    for i in (0, 1, 3, 4, 2):
        yield beside(c, WORKS[i], table)
    no_liger = "" if "liger" in c.versions else f"{c.python} has no liger_kernel"
    yield beside(c, WORKS[0], table, "--liger", label="PyTorch, Liger", missing=no_liger)
    yield measure(c, DPO, table)
    yield beside(c, DPO, table, label="TRL", missing="" if "trl" in c.versions else f"{c.python} has no trl")
    yield beside(c, WORKS[3], table, "--liger", label="PyTorch, Liger", missing=no_liger)
    yield measure(c, WORKS[5], table)
    # The file says how long each algorithm took.
    yield measure(c, WORKS[0], table, "measured products", f"training.gemm_tuning={c.results / 'gemm_tuning.jsonl'}", missing=no_gpu)
    yield measure(c, WORKS[0], table, "cuDNN", "model.attn_implementation=cudnn", missing=no_gpu)
    yield beside(c, WORKS[3], table, "--recompute", label="PyTorch, recomputed")
    yield beside(c, WORKS[0], table, "--compile", label="PyTorch, compiled")


def compare_steps(c, old, table):
    """Old, new, old, new in one call on one card, by the wall clock."""
    yield ceilings_and_models(c, ("llama8", "t5"))
    words = {"old": [old, *c.ft_words[1:]], "new": c.ft_words}
    for w in COMPARED:
        order = ("old", "new", "old", "new")
        steps = f"training.max_steps={c.steps or 30}"
        groups = [[train(c, w, steps, ft=words[who])] for who in order]

        def check(outcomes, w=w, order=order):
            found = {"old": [], "new": []}
            for who, outcome in zip(order, outcomes):
                seconds = statistics.median(seconds_of_steps(outcome)[1:-1])
                found[who].append(w.batch * sum(w.lengths(c)) / seconds)
                table.append((w.name, who, {"tokens_per_second": found[who][-1], "peak_gib": outcome.gpu_gib, "begun": outcome.line_times[0],
                                            "ended": outcome.line_times[-1]}))
            ratio = sum(found["new"]) / sum(found["old"])
            each = ", ".join(f"{who} {found[who][i]:.0f}" for i in (0, 1) for who in ("old", "new"))
            return f"{100 * (ratio - 1):+.1f} %: {each} tok/s"

        yield Step(f"old and new: {w.name}", groups, 120, lambda w=w: make_run(c, w), check, skips=DOES_NOT_FIT)
