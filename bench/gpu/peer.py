#!/usr/bin/env python3
"""The same training as users run it with PyTorch, transformers and PEFT. One JSON object a line.

    peer.py versions
    peer.py train MODEL TOKENS --kind lora|qlora|full --batch N --length N [--target N] [--steps N] [--recompute] [--compile] [--liger]
    peer.py dpo MODEL PAIRS --batch N [--steps N] [--liger]      TRL's DPOTrainer; tokens of both answers with their prompts

With --target it is an encoder and decoder's; its tokens count as well. SDPA attention where transformers has it for the model, bf16
weights under autocast, fused AdamW; --liger: with Liger's kernels in place of transformers'. A failure is a row with "error". Needs torch,
transformers, peft; for qlora bitsandbytes, for --liger liger_kernel, for dpo trl as well.
"""
import argparse
import dataclasses
import importlib.metadata
import json
import os
import statistics
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch  # noqa: E402

ALPHA, RANK, RATE, CLIP = 32, 16, 1e-4, 1.0


def say(**row):
    print(json.dumps(row), flush=True)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def versions():
    import peft
    import transformers

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    more = ""
    for name in ("bitsandbytes", "liger_kernel", "trl"):
        try:
            more += f", {name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            pass
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}{more}, {device}")


def load(a):
    """The model without its adapter."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    more = {}
    if a.kind == "qlora":
        more["quantization_config"] = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                                                      bnb_4bit_compute_dtype=torch.bfloat16)
    kind_of = transformers.AutoModelForSeq2SeqLM if a.target else transformers.AutoModelForCausalLM
    more = {**more, "dtype": torch.bfloat16, "device_map": {"": a.device}}
    try:
        model = kind_of.from_pretrained(a.model, attn_implementation="sdpa", **more)
    except ValueError:                               # T5, in older versions
        model = kind_of.from_pretrained(a.model, attn_implementation="eager", **more)
    model.config.use_cache = False
    if a.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if a.liger:
        from liger_kernel.transformers import monkey_patch

        if model.config.model_type not in monkey_patch.MODEL_TYPE_TO_APPLY_LIGER_FN:
            raise ValueError(f"Liger has no kernels for {model.config.model_type}")
        monkey_patch._apply_liger_kernel_to_instance(model=model)
    return model


def adapter(a):
    import peft

    return peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", lora_dropout=0.0, task_type="SEQ_2_SEQ_LM" if a.target else "CAUSAL_LM")


def train(a):
    begun = time.time()
    rows = [json.loads(line) for _, line in zip(range(a.steps * a.batch), open(a.tokens))]
    model = load(a)
    if a.kind != "full":
        import peft

        model = peft.get_peft_model(model, adapter(a))
    model.train()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=RATE, weight_decay=0.0, fused=True)
    forward = torch.compile(model) if a.compile else model
    seconds, losses = [], []
    for i in range(a.steps):
        start = time.perf_counter()
        batch = rows[i * a.batch:(i + 1) * a.batch]
        ids = torch.tensor([r["input_ids"][:a.length] for r in batch], device=a.device)
        labels = torch.tensor([r["labels"][:a.target] for r in batch], device=a.device) if a.target else ids
        with torch.autocast(a.device, dtype=torch.bfloat16):
            loss = forward(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        synchronize(a.device)
        seconds.append(time.perf_counter() - start)
        if i == 0:
            warm = time.time()
    tokens = a.batch * (a.length + a.target)
    peak = torch.cuda.max_memory_allocated() / 2**30 if a.device == "cuda" else None
    say(kind=a.kind, compiled=a.compile, tokens_per_second=tokens / statistics.median(seconds[1:] or seconds), first_step_s=round(warm - begun, 1),
        first_loss=losses[0], last_loss=losses[-1], allocated_gib=peak, begun=warm, ended=time.time())


def words_for(ids):
    return "".join(f"t{i} " for i in ids)


def words_tokenizer(vocabulary):
    """Token i is the word "ti"."""
    import tokenizers
    import transformers

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"t{i}": i for i in range(vocabulary)}, unk_token="t0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="t0", pad_token="t0", eos_token="t2", bos_token="t1")


def dpo(a):
    import datasets
    import transformers
    import trl

    begun, times = time.time(), []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            synchronize(a.device)
            times.append(time.time())

    rows = [json.loads(line) for _, line in zip(range(a.steps * a.batch), open(a.tokens))]
    pairs = datasets.Dataset.from_list([{"prompt": words_for(r["prompt_ids"]), "chosen": words_for(r["chosen_ids"]), "rejected": words_for(r["rejected_ids"])} for r in rows])
    model = load(a)
    wanted = {"output_dir": tempfile.mkdtemp(), "per_device_train_batch_size": a.batch, "max_steps": a.steps, "learning_rate": RATE, "lr_scheduler_type": "constant",
              "max_grad_norm": CLIP, "bf16": True, "gradient_checkpointing": False, "logging_steps": 1, "report_to": "none", "save_strategy": "no", "max_length": None,
              "beta": 0.1, "optim": "adamw_torch_fused", "disable_tqdm": True, "use_cpu": a.device == "cpu"}
    known = {f.name for f in dataclasses.fields(trl.DPOConfig)}
    trainer = trl.DPOTrainer(model=model, args=trl.DPOConfig(**{k: v for k, v in wanted.items() if k in known}), train_dataset=pairs,
                             processing_class=words_tokenizer(model.config.vocab_size), peft_config=adapter(a), callbacks=[Clock()])
    trainer.train()
    losses = [r["loss"] for r in trainer.state.log_history if "loss" in r]
    tokens = a.batch * sum(2 * len(r["prompt_ids"]) + len(r["chosen_ids"]) + len(r["rejected_ids"]) for r in rows) / len(rows)
    seconds = [after - before for before, after in zip(times, times[1:])]
    peak = torch.cuda.max_memory_allocated() / 2**30 if a.device == "cuda" else None
    say(kind="dpo", tokens_per_second=tokens / statistics.median(seconds), first_step_s=round(times[0] - begun, 1), first_loss=losses[0], last_loss=losses[-1],
        allocated_gib=peak, begun=times[0], ended=times[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("command", choices=["versions", "train", "dpo"])
    p.add_argument("model", nargs="?")
    p.add_argument("tokens", nargs="?")
    p.add_argument("--kind", choices=["lora", "qlora", "full"], default="lora")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--length", type=int, default=4096)
    p.add_argument("--target", type=int, default=0)
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--recompute", action="store_true")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--liger", action="store_true")
    a = p.parse_args()
    if a.command == "versions":
        return versions()
    try:
        (dpo if a.command == "dpo" else train)(a)
    except Exception as e:
        say(error=f"{type(e).__name__}: {str(e)[:300]}")


if __name__ == "__main__":
    sys.exit(main())
