#!/usr/bin/env python3
"""Makes preference/: 50 steps of TRL's own trainers on the tiny LLaMA, full and LoRA, f32, on a CPU.

    V/bin/pip install trl==1.16.0 datasets
    V/bin/python make_preference.py [NAME ...]

Rows are token ids; the trainers read them as words <5> <17>, which a tokenizer maps one to one, so that their own
preparation of data is part of the oracle. `shaken` is the same run from weights moved by a unit of the last place:
how far apart two right programs may be.
"""
import copy, json, logging, os, sys, tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", CUDA_VISIBLE_DEVICES="", TQDM_DISABLE="1",
                  HF_DATASETS_CACHE=tempfile.mkdtemp())
import datasets, peft, tokenizers, torch, transformers, trl
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

torch.set_num_threads(1)
datasets.disable_progress_bars()
transformers.logging.set_verbosity_error()
logging.getLogger("trl").setLevel(logging.ERROR)

HERE = Path(__file__).parent
OUT = HERE / "preference"
VOCAB, END, STEPS, ROWS, BATCH = 59, 2, 50, 24, 4
PAIRS = ["rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected"]
SIMPO = {"loss_type": "simpo", "cpo_alpha": 0.0}
KINDS = {  # ft's objective, TRL's configuration and trainer, what it takes besides, columns
    "dpo": ({"type": "dpo"}, trl.DPOConfig, trl.DPOTrainer, {},
            PAIRS + ["entropy", "logits/chosen", "logits/rejected", "mean_token_accuracy"]),
    "kto": ({"type": "kto"}, trl.KTOConfig, trl.KTOTrainer, {},
            [c for c in PAIRS if c != "rewards/accuracies"] + ["kl", "entropy", "logits/chosen", "logits/rejected"]),
    "orpo": ({"type": "orpo"}, ORPOConfig, ORPOTrainer, {}, PAIRS + ["nll_loss"]),
    "cpo": ({"type": "cpo"}, CPOConfig, CPOTrainer, {}, PAIRS + ["nll_loss"]),
    "simpo": ({"type": "simpo"}, CPOConfig, CPOTrainer, SIMPO, PAIRS),
    "reward": ({"type": "reward"}, trl.RewardConfig, trl.RewardTrainer, {},
               ["accuracy", "margin", "min_reward", "mean_reward", "max_reward"]),
}


def make_rows():
    g = torch.Generator().manual_seed(24)
    draw = lambda low, high: int(torch.randint(low, high + 1, (1,), generator=g))
    ids = lambda low, high: [draw(3, VOCAB - 1) for _ in range(draw(low, high))]
    pairs, labelled = [], []
    for i in range(ROWS):
        prompt, good, bad = ids(2, 8), ids(1, 9) + [END], ids(1, 9) + [END]
        pairs.append({"prompt_ids": prompt, "chosen_ids": good, "rejected_ids": bad})
        labelled.append({"prompt_ids": prompt, "completion_ids": good if i % 3 else bad, "label": i % 3 > 0})
    for name, rows in (("pairs", pairs), ("labelled", labelled)):
        (OUT / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return {"pairs": pairs, "labelled": labelled}


def words(ids):
    return "".join(f" <{i}>" for i in ids)


def dataset(rows):
    return datasets.Dataset.from_list(
        [{k.removesuffix("_ids"): words(v) if isinstance(v, list) else v for k, v in r.items()} for r in rows])


def tokenizer():
    t = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"<{i}>": i for i in range(VOCAB)}, unk_token="<0>"))
    t.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token=f"<{END}>", pad_token="<0>")


def load(kind, lora):
    """The base, or with the adapter that the run begins with; of a reward model both have a score."""
    how = {"dtype": torch.float32, "attn_implementation": "eager"}
    if kind == "reward":
        m = AutoModelForSequenceClassification.from_pretrained(OUT / "reward/model", num_labels=1, **how)
    else:
        m = AutoModelForCausalLM.from_pretrained(HERE / "models/llama-gqa/model", **how)
    if not lora:
        return m
    return peft.PeftModel.from_pretrained(m, OUT / "reward/adapter" if kind == "reward" else HERE / "models/lora/adapter",
                                          is_trainable=True)


def make_reward_start():
    torch.manual_seed(5)
    m = AutoModelForSequenceClassification.from_pretrained(HERE / "models/llama-gqa/model", num_labels=1, dtype=torch.float32)
    m.score.weight.data.normal_(0, 0.3)
    m.to(torch.bfloat16).save_pretrained(OUT / "reward/model")
    m = peft.get_peft_model(m.float(), peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["q_proj", "v_proj"]))
    for name, p in m.named_parameters():
        if "lora_B" in name:
            p.data.normal_(0, 0.05)
    m.save_pretrained(OUT / "reward/adapter")
    (OUT / "reward/adapter/README.md").unlink(missing_ok=True)
    config = json.loads((OUT / "reward/adapter/adapter_config.json").read_text())
    config["base_model_name_or_path"] = None
    (OUT / "reward/adapter/adapter_config.json").write_text(
        json.dumps({k: sorted(v) if isinstance(v, list) else v for k, v in config.items()}, indent=1, sort_keys=True))


def shake(m):
    g = torch.Generator().manual_seed(1)
    for p in m.parameters():
        p.data.mul_(1 + torch.randint(-1, 2, p.shape, generator=g) * 2.0**-23)


def run(kind, lora, rows, shaken):
    objective, config, trainer, more, columns = KINDS[kind]
    m = load(kind, lora)
    if shaken:
        shake(m)
    args = config(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=1e-3,
                  lr_scheduler_type="cosine", warmup_steps=5, weight_decay=0.0, max_grad_norm=1.0, adam_epsilon=1e-5,
                  optim="adamw_torch", bf16=False, use_cpu=True, gradient_checkpointing=False, logging_steps=1,
                  report_to="none", save_strategy="no", disable_tqdm=True, train_sampling_strategy="sequential",
                  dataloader_pin_memory=False, max_length=64, **more)
    t = trainer(m, args=args, processing_class=tokenizer(), train_dataset=dataset(rows))
    t.remove_callback(transformers.PrinterCallback)
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    assert len(log) == STEPS
    curves = {"loss": [r["loss"] for r in log], "grad_norm": [r["grad_norm"] for r in log]}
    return {**curves, **{c: [r.get(c) for r in log] for c in columns}}


def apart(a, b):
    return max(abs(x - y) / (1 + abs(x)) for x, y in zip(a, b) if x is not None)


def main():
    OUT.mkdir(exist_ok=True)
    rows = make_rows()
    if not (OUT / "reward").exists():
        make_reward_start()
    file = OUT / "runs.json"
    runs = json.loads(file.read_text())["runs"] if file.exists() else {}
    for kind in KINDS:
        for lora in (False, True):
            name = f"{kind}_{'lora' if lora else 'full'}"
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            data = "labelled" if kind == "kto" else "pairs"
            curves, other = (run(kind, lora, copy.deepcopy(rows[data]), shaken) for shaken in (False, True))
            runs[name] = {"objective": KINDS[kind][0], "lora": lora, "rows": data + ".jsonl",
                          "shaken": {c: apart(curves[c], other[c]) for c in curves}, "curves": curves}
            print(name, curves["loss"][0], curves["loss"][-1], max(runs[name]["shaken"].values()), flush=True)
    versions = {m.__name__: m.__version__ for m in (torch, transformers, peft, trl)}
    file.write_text(json.dumps({"made_with": versions, "runs": runs}) + "\n")


main()
