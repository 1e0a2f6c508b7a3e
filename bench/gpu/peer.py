#!/usr/bin/env python3
"""The same training as users run it with PyTorch, transformers and PEFT. One JSON object a line.

    peer.py versions
    peer.py ceilings [--device cuda]                 what the GPU reaches: copies, bf16 products, attention
    peer.py train MODEL TOKENS --kind lora|qlora|full --batch N --length N [--target N] [--steps N] [--recompute] [--compile]

With --target it is an encoder and decoder's; its tokens count as well. SDPA attention where transformers has it for the model, bf16
weights under autocast, fused AdamW. A failure is a row with "error". Needs torch, transformers, peft; for qlora bitsandbytes as well.
"""
import argparse
import json
import os
import statistics
import sys
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


def median_time(f, device, repeats=20):
    f()
    synchronize(device)
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        f()
        synchronize(device)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def versions():
    import peft
    import transformers

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    try:
        import bitsandbytes

        more = f", bitsandbytes {bitsandbytes.__version__}"
    except ImportError:
        more = ""
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}{more}, {device}")


def ceilings(a):
    def random(*shape):
        return torch.randn(*shape, device=a.device, dtype=torch.bfloat16)

    x = torch.empty(2**30, dtype=torch.uint8, device=a.device)
    y = torch.empty_like(x)
    say(name="copy", value=2 * x.numel() / median_time(lambda: y.copy_(x), a.device) / 1e9, unit="GB/s")
    del x, y
    for m, n, k in ((8192, 4096, 4096), (8192, 11008, 4096), (8192, 4096, 11008), (8192, 32000, 4096), (8192, 16, 4096)):
        left, right = random(m, k), random(n, k)
        seconds = median_time(lambda: torch.nn.functional.linear(left, right), a.device)
        say(name=f"product {m}x{n}x{k}", value=2 * m * n * k / seconds / 1e12, unit="TFLOP/s")
    batch, heads, length, width = 2, 32, 4096, 128
    q = random(batch, heads, length, width).requires_grad_()
    gradient = random(batch, heads, length, width)

    def attention():
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)

    pairs = batch * heads * length * length * width
    forward = median_time(attention, a.device)
    both = median_time(lambda: attention().backward(gradient), a.device)
    say(name="attention", value=2 * pairs / forward / 1e12, unit="TFLOP/s")
    say(name="attention's gradient", value=5 * pairs / (both - forward) / 1e12, unit="TFLOP/s")


def load(a):
    import peft
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
    if a.kind != "full":
        lora = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", lora_dropout=0.0, task_type="SEQ_2_SEQ_LM" if a.target else "CAUSAL_LM")
        model = peft.get_peft_model(model, lora)
    return model.train()


def train(a):
    begun = time.time()
    rows = [json.loads(line) for _, line in zip(range(a.steps * a.batch), open(a.tokens))]
    model = load(a)
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
            first = time.time() - begun
    tokens = a.batch * (a.length + a.target)
    peak = torch.cuda.max_memory_allocated() / 2**30 if a.device == "cuda" else None
    say(kind=a.kind, compiled=a.compile, tokens_per_second=tokens / statistics.median(seconds[1:] or seconds), first_step_s=round(first, 1),
        first_loss=losses[0], last_loss=losses[-1], allocated_gib=peak)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("command", choices=["versions", "ceilings", "train"])
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
    a = p.parse_args()
    if a.command == "versions":
        return versions()
    try:
        (ceilings if a.command == "ceilings" else train)(a)
    except Exception as e:
        say(error=f"{type(e).__name__}: {str(e)[:300]}")


if __name__ == "__main__":
    sys.exit(main())
