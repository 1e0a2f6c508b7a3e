#!/usr/bin/env python3
"""The same training as users run it with PyTorch and PEFT, on the CPU.

    peer.py make FOLDER [--model t5|moe|gemma2]     the model, the starting adapter and the tokens, from fixed seeds
    peer.py run FOLDER KIND [--steps N] [--compile] [--save ADAPTER] [--full OPTIM]

KIND: bf16 (bf16 weights, PEFT's own casts), autocast (bf16 weights under torch.autocast) or f32. --full trains the whole model,
with OPTIM adamw or adamw_8bit (bitsandbytes', which keeps the states of embeddings in 32 bits, as transformers' Trainer has it).
Prints one JSON object a line: a row for each step when it has ended, then a summary. Needs torch, transformers and peft.
"""
import argparse
import json
import os
import statistics
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import peft
import torch
import transformers

VOCABULARY, SEQUENCES, LENGTH = 32000, 4, 512
SHAPE = dict(vocab_size=VOCABULARY, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
             num_key_value_heads=12, max_position_embeddings=2048, tie_word_embeddings=False, pad_token_id=0)
TINY = dict(vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2)
T5_SHAPE = dict(vocab_size=32128, d_model=768, d_kv=64, d_ff=3072, num_layers=8, num_heads=12, dropout_rate=0.0, decoder_start_token_id=0)
T5_TINY = dict(vocab_size=320, d_model=64, d_kv=32, d_ff=96, num_layers=2, num_heads=2)
MOE_SHAPE = dict(vocab_size=VOCABULARY, hidden_size=512, moe_intermediate_size=384, num_hidden_layers=8, num_attention_heads=8,
                 num_key_value_heads=4, head_dim=64, num_experts=32, num_experts_per_tok=4, norm_topk_prob=True, max_position_embeddings=2048,
                 tie_word_embeddings=False, pad_token_id=0)
MOE_TINY = dict(vocab_size=320, hidden_size=64, moe_intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
                num_key_value_heads=2, head_dim=32, num_experts=8, num_experts_per_tok=2)
GEMMA_2B = dict(vocab_size=256000, hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, num_attention_heads=8, num_key_value_heads=4,
                head_dim=256, query_pre_attn_scalar=256, sliding_window=4096, max_position_embeddings=8192, pad_token_id=0)
GEMMA_TINY = dict(vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=32)
TARGET = 128                                         # tokens of T5's target; its source has LENGTH
RATE, DECAY, CLIP = 1e-4, 0.0, 1.0


def say(**row):
    print(json.dumps(row), flush=True)


def new_model(name, tiny):
    if name == "t5":
        config = transformers.T5Config(**{**T5_SHAPE, **(T5_TINY if tiny else {})})
        return transformers.T5ForConditionalGeneration(config)
    if name == "moe":
        return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**{**MOE_SHAPE, **(MOE_TINY if tiny else {})}))
    if name == "gemma2":
        return transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**{**GEMMA_2B, **(GEMMA_TINY if tiny else {})}))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SHAPE, **(TINY if tiny else {})}))


def make(folder, name, tiny, steps=64):
    """Writes model-bf16, model-f32 (the same numbers), start (an adapter whose B is zero) and train.jsonl."""
    torch.manual_seed(1)
    model = new_model(name, tiny).to(torch.bfloat16)
    config = model.config
    model.save_pretrained(f"{folder}/model-bf16")
    if name != "gemma2" or tiny:                     # which is too large for it
        model.float().save_pretrained(f"{folder}/model-f32")
    torch.manual_seed(2)
    lora = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", lora_dropout=0.0,
                           task_type="SEQ_2_SEQ_LM" if name == "t5" else "CAUSAL_LM")
    peft.get_peft_model(model, lora).save_pretrained(f"{folder}/start")
    g = torch.Generator().manual_seed(3)
    with open(f"{folder}/train.jsonl", "w") as f:
        for _ in range(steps * SEQUENCES):           # text-like: few words are frequent, so that there is something to learn
            ids = (config.vocab_size * torch.rand(LENGTH, generator=g) ** 4).long().clamp(3, config.vocab_size - 1).tolist()
            f.write(json.dumps({"input_ids": ids, "labels": ids[:TARGET] if name == "t5" else ids}) + "\n")


def load(folder, kind, full):
    dtype = torch.float32 if kind == "f32" else torch.bfloat16
    path = f"{folder}/model-{'f32' if kind == 'f32' else 'bf16'}"
    config = transformers.AutoConfig.from_pretrained(path)
    kind_of = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
    eager = config.is_encoder_decoder or config.model_type == "gemma2"  # whose scores are capped
    model = kind_of.from_pretrained(path, dtype=dtype, attn_implementation="eager" if eager else "sdpa")
    model.config.use_cache = False
    return model.train() if full else peft.PeftModel.from_pretrained(model, f"{folder}/start", is_trainable=True).train()


def optimizer_of(model, params, optim):
    if optim != "adamw_8bit":
        return torch.optim.AdamW(params, lr=RATE, weight_decay=DECAY, fused=True)
    import bitsandbytes
    for layer in model.modules():
        if isinstance(layer, torch.nn.Embedding):
            bitsandbytes.optim.GlobalOptimManager.get_instance().register_module_override(layer, "weight", {"optim_bits": 32})
    return bitsandbytes.optim.AdamW8bit(params, lr=RATE, weight_decay=DECAY)


def run(a):
    rows = [json.loads(line) for _, line in zip(range(a.steps * a.sequences), open(f"{a.folder}/train.jsonl"))]
    model = load(a.folder, a.kind, a.full)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer_of(model, params, a.full)
    forward = torch.compile(model) if a.compile else model
    begin, seconds, losses = time.time(), [], []
    for i in range(a.steps):
        batch = rows[i * a.sequences:(i + 1) * a.sequences]
        ids, labels = (torch.tensor([r[key] for r in batch]) for key in ("input_ids", "labels"))
        tokens = ids.numel() + (labels.numel() if model.config.is_encoder_decoder else 0)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=a.kind == "autocast"):
            loss = forward(input_ids=ids, labels=labels).loss
        loss.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(params, CLIP))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.time() - begin)
        begin = time.time()
        losses.append(float(loss.detach()))
        say(step=i + 1, loss=losses[-1], grad_norm=norm, tokens_per_second=round(tokens / seconds[-1], 1))
    if a.save:
        model.save_pretrained(a.save)
    median = statistics.median(seconds[1:] or seconds)
    say(kind=a.kind, compiled=a.compile, tokens_per_second=round(tokens / median, 1), peak_gib=round(peak_gib(), 3),
        threads=torch.get_num_threads(), torch=torch.__version__, transformers=transformers.__version__, peft=peft.__version__)


def peak_gib():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 2**20


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("command", choices=["make", "run"])
    a.add_argument("folder")
    a.add_argument("kind", nargs="?", choices=["bf16", "autocast", "f32"], default="bf16")
    a.add_argument("--steps", type=int, default=8)
    a.add_argument("--sequences", type=int, default=SEQUENCES, help="of a step")
    a.add_argument("--compile", action="store_true")
    a.add_argument("--full", choices=["adamw", "adamw_8bit"], help="full fine-tuning with this optimizer")
    a.add_argument("--save", help="write the trained adapter to this folder")
    a.add_argument("--model", choices=["llama", "t5", "moe", "gemma2"], default="llama")
    a.add_argument("--tiny", action="store_true", help="make a tiny model, to try the scripts")
    a = a.parse_args()
    transformers.utils.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    make(a.folder, a.model, a.tiny) if a.command == "make" else run(a)


if __name__ == "__main__":
    sys.exit(main())
