"""Part 3: every kind of work once, on the GPU beside the CPU: what is claimed for CUDA is seen on CUDA.

every_kind.json lists them: the model's family (a folder of tests/golden/models, whose config.json is made wider), the rows that it trains on,
the settings, the largest difference of a loss, and that of gradients' norms where it is not NORM times as large (Lion's steps are signs: a
gradient near zero may step the other way; gemma4's random weights amplify rounding: bf16 and f32 differ by 0.16 on one CPU).
tests/app/config/every_kind_test.cpp sees to it that none is missing.
"""
import json
import os
import random
import re
import shutil
import sys
from pathlib import Path

from kit import ROOT, Command, Step

HERE = Path(__file__).resolve().parent
LISTED = json.loads((HERE / "every_kind.json").read_text())
STEPS, LENGTH, VOCABULARY = 6, 64, 512
F32 = 1e-4                                           # the bound of losses where a kind has none
NORM = 10                                            # that of gradients' norms is so many times as large
# What a config.json that has these gets: heads of 64 columns, as kernels for tensor cores want them.
WIDER = {"vocab_size": VOCABULARY, "vocab_size_per_layer_input": VOCABULARY, "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
         "max_position_embeddings": 256, "sliding_window": 24, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 96, "n_embd": 256, "n_head": 4,
         "n_inner": 512, "n_positions": 256, "ffn_dim": 512, "word_embed_proj_dim": 256, "d_model": 256, "d_kv": 64, "d_ff": 512, "num_heads": 4,
         "dropout_rate": 0.1, "query_pre_attn_scalar": 64}
# Latent attention's besides: every query has a key, whose columns are those without rope and those with it.
LATENT = {"num_key_value_heads": 4, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "qk_head_dim": 96, "head_dim": 32, "v_head_dim": 64, "kv_lora_rank": 64}
REWARD = "while read -r line; do rest=${line#*'\"id\":'}; id=${rest%%,*}; ids=${line#*'\"completion_ids\":['}; ids=${ids%%]*}; " \
         "echo \"{\\\"id\\\": $id, \\\"reward\\\": $((${ids%%,*} % 5))}\"; done\n"


def folder_of(name):
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")


def place(c):
    return c.work / "kinds"


def shape(family):
    config = json.loads((ROOT / "tests/golden/models" / family / "model/config.json").read_text())
    wider = {**WIDER, **LATENT} if "kv_lora_rank" in config else WIDER
    return {k: wider.get(k, v) for k, v in config.items()}


def make_models(c):
    """One of each family, side by side."""
    commands = []
    for family in LISTED["families"]:
        folder = place(c) / "models" / family
        if (folder / "model").exists():
            continue
        if not c.dry:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "config.json").write_text(json.dumps(shape(family)))
        commands.append(Command([c.ft, "init", "--config", folder / "config.json", "--output", folder / "model"]))
    return commands


def write_rows(c):
    draw = random.Random(1)

    def ids(most):
        return [3 + int((VOCABULARY - 3) * draw.random() ** 3) for _ in range(draw.randint(2, most))]

    rows = {"tokens": [{"input_ids": ids(LENGTH)} for _ in range(24)], "pairs": [], "labelled": [], "rollouts": [], "prompts": [], "sources": [],
            "classes": [], "several": [], "texts": []}
    for i in range(24):
        prompt = ids(12)
        rows["pairs"].append({"prompt_ids": prompt, "chosen_ids": ids(12), "rejected_ids": ids(16)})
        rows["labelled"].append({"prompt_ids": prompt, "completion_ids": ids(12), "label": i % 3 == 0})
        rows["prompts"].append({"prompt_ids": prompt})
        rows["classes"].append({"input_ids": prompt, "label": i % 3})
        rows["several"].append({"input_ids": prompt, "label": [i % 2, i // 2 % 2]})
        rows["texts"].append({"anchor_ids": prompt, "positive_ids": ids(12), "negative_ids": ids(16)})
        rows["sources"].append({"input_ids": ids(LENGTH), "labels": ids(16)})
        for reward in (i % 5, (i + 2) % 5):
            rows["rollouts"].append({"prompt_ids": prompt, "completion_ids": ids(10), "reward": reward / 4})
    rows["examples"] = [{"input_ids": r["prompt_ids"] + r["completion_ids"], "labels": [-100] * len(r["prompt_ids"]) + r["completion_ids"]}
                        for r in rows["labelled"]]
    for name, content in rows.items():
        (place(c) / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    (place(c) / "reward.sh").write_text(REWARD)


def settings(c, kind, device, again=""):
    """The command line of a kind, and its folder."""
    family = kind.get("model", "llama")
    t5 = shape(family).get("is_encoder_decoder", False)
    out = place(c) / "runs" / f"{folder_of(kind['name'])}-{device}{again}"
    words = {"TEACHER": place(c) / "models" / ("mt5" if t5 else "qwen2") / "model", "FOLDER": place(c), "REWARD": f"exec sh {place(c) / 'reward.sh'}"}
    given = [re.sub(r"=(TEACHER|FOLDER|REWARD)$", lambda m: f"={words[m[1]]}", s) for s in kind["set"]]
    rows = place(c) / f"{kind.get('rows') or ('sources' if t5 else 'tokens')}.jsonl"
    data = f'data.datasets=[{{"path": "{rows}"}}]'
    lengths = [f"data.max_source_length={LENGTH}", "data.max_target_length=16"] if t5 else [f"data.max_seq_length={LENGTH}"]
    precision = [] if any(s.startswith(("training.bf16=", "training.fp16=")) for s in given) else ["training.bf16=false"]
    return [f"model.model_name_or_path={place(c) / 'models' / family / 'model'}", data, *lengths, f"training.output_dir={out}", f"device={device}", *precision,
            *given], out


BASE = {"lora": {"r": 8, "target_modules": "all-linear"}, "data": {"shuffle": False},
        "training": {"per_device_train_batch_size": 2, "max_steps": STEPS, "learning_rate": 1e-3, "lr_scheduler_type": "constant"},
        "zero_optimization": {"sub_group_size": 65536}, "generation": {"batch_size": 4},
        "logging": {"logging_steps": 1, "progress": "none", "report_to": ["none"], "plot_loss": False, "html_report": False},
        "checkpointing": {"save_strategy": "no"}}


def prepare(c):
    place(c).mkdir(parents=True, exist_ok=True)
    write_rows(c)
    (place(c) / "run.json").write_text(json.dumps(BASE, indent=1))


def columns(out):
    """Losses, evaluations' among them, and norms of gradients."""
    rows = [json.loads(line) for line in open(out / "log.jsonl")]
    return [r.get("loss", r.get("eval_loss")) for r in rows if "loss" in r or "eval_loss" in r], [r["grad_norm"] for r in rows if "grad_norm" in r]


def difference(a, b, least):
    """The largest, relative to what it should be, or to `least` where that is less."""
    assert len(a) == len(b) and len(a) >= 2, f"{len(a)} and {len(b)} rows"
    return max(abs(x - y) / max(least, abs(y)) for x, y in zip(a, b))


def one_core(i):
    """Kinds run side by side, each on a core of its own."""
    cores = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", cores[i % len(cores)]] if shutil.which("taskset") else []


def trained(c, i, kind):
    groups, outs = [], []
    for device, again in (("cpu", ""), (c.device, "-again")):
        words, out = settings(c, kind, device, again)
        outs.append(out)
        groups.append([Command([*one_core(i), *c.ft_words, "train", "--config", place(c) / "run.json", "--overwrite", *words], c.environment)])

    def check(_):
        bound = kind.get("bound", F32)
        norm_bound = kind.get("norm", NORM * bound)
        (losses, norms), (wanted_losses, wanted_norms) = columns(outs[1]), columns(outs[0])
        loss, norm = difference(losses, wanted_losses, 1), difference(norms, wanted_norms, 0.01)
        assert loss <= bound, f"losses differ by {loss:.1e}, more than {bound:.0e}"
        assert norm <= norm_bound, f"norms of gradients differ by {norm:.1e}, more than {norm_bound:.0e}"
        assert max(wanted_norms) > 0, "there is no gradient"
        return f"losses differ by {loss:.1e} at most, norms of gradients by {norm:.1e}"

    return Step(kind["name"], groups, 60, check=check)


def answered(c, i, name, *more):
    """The same answers on both devices."""
    groups = [[Command([*one_core(i), *c.ft_words, "generate", "--model", ROOT / "configs/demo/base", "--prompt", "3 + 4 =", f"device={device}",
                        "--dtype", "float32", "generation.max_new_tokens=16", *more], c.environment)] for device in ("cpu", c.device)]
    return Step(f"generate: {name}", groups, 60, check=same)


def served(c, i):
    groups = [[Command([*one_core(i), sys.executable, HERE / "ask.py", *c.ft_words, "serve", "--model", ROOT / "configs/demo/base", "--port", "0",
                        "--dtype", "float32", f"device={device}"], c.environment)] for device in ("cpu", c.device)]
    return Step("serve", groups, 60, check=same)


def same(outcomes):
    a, b = ([line for line in o.text.splitlines() if line.startswith("answer ")] or o.text.splitlines()[-1:] for o in outcomes)
    assert a and a == b, f"answers differ: {a} {b}"
    return "the same answer"


def steps(c):
    """Lists of steps that run side by side."""
    if not c.dry:
        prepare(c)
    models = make_models(c)
    yield [Step("models of all families", [models], 60, missing="" if models else "they are there")]
    several = [trained(c, i, kind) for i, kind in enumerate(LISTED["kinds"])]
    for name, *more in (("greedy",), ("beams", "generation.num_beams=3"), ("drawn", "generation.do_sample=true", "generation.temperature=1.5"),
                        ("in 4 bits", "--quantize", "nf4")):
        several.append(answered(c, len(several), name, *more))
    yield [*several, served(c, len(several))]
