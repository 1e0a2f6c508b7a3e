#!/usr/bin/env python3
"""DPO as users run it with TRL, on the CPU.

    peer.py make FOLDER [--tiny]             the model, the starting adapter and the pairs, from fixed seeds
    peer.py run FOLDER KIND [--steps N]

KIND: bf16 (bf16 weights), autocast (bf16 weights, DPOConfig(bf16=True)) or f32. Prints one JSON object a line: a row for
each step when it has ended, then a summary. Needs torch, transformers, peft, datasets and trl 1.16.
"""
import argparse
import json
import os
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1", CUDA_VISIBLE_DEVICES="",
                  HF_DATASETS_CACHE=tempfile.mkdtemp(prefix="ft-bench-datasets-"))
ROWS = os.fdopen(os.dup(1), "w")                     # libraries log on stdout too (DeepSpeed does): that goes to stderr
os.dup2(2, 1)
import datasets
import peft
import tokenizers
import torch
import transformers
import trl

PAIRS, PROMPT, ANSWER, END = 2, 384, 128, 2          # pairs of a step; tokens, the end token among the answer's
SHAPE = dict(vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
             num_key_value_heads=12, max_position_embeddings=2048, tie_word_embeddings=False, pad_token_id=0)
TINY = dict(vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2)
RATE, BETA = 1e-4, 0.1


def say(**row):
    print(json.dumps(row), file=ROWS, flush=True)


def make(folder, tiny, steps=64):
    """Writes model-bf16, model-f32 (the same numbers), start (an adapter whose B is zero) and train.jsonl."""
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SHAPE, **(TINY if tiny else {})})).to(torch.bfloat16)
    model.save_pretrained(f"{folder}/model-bf16")
    model.float().save_pretrained(f"{folder}/model-f32")
    torch.manual_seed(2)
    lora = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")
    peft.get_peft_model(model, lora).save_pretrained(f"{folder}/start")
    g, vocabulary = torch.Generator().manual_seed(3), model.config.vocab_size

    def text(n, power):                              # few words are frequent; chosen and rejected answers differ in how few
        return (vocabulary * torch.rand(n, generator=g) ** power).long().clamp(3, vocabulary - 1).tolist()

    with open(f"{folder}/train.jsonl", "w") as f:
        for _ in range(steps * PAIRS):
            f.write(json.dumps({"prompt_ids": text(PROMPT, 4), "chosen_ids": text(ANSWER - 1, 4) + [END],
                                "rejected_ids": text(ANSWER - 1, 2) + [END]}) + "\n")


def word_tokenizer(vocabulary):
    """Maps the words <5> <17> to their ids, so that TRL prepares the pairs in its own way."""
    t = tokenizers.Tokenizer(tokenizers.models.WordLevel({f"<{i}>": i for i in range(vocabulary)}, unk_token="<0>"))
    t.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token=f"<{END}>", pad_token="<0>")


class Rows(transformers.TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        if logs and "loss" in logs:
            say(step=state.global_step, loss=logs["loss"])


def run(a):
    dtype = torch.float32 if a.kind == "f32" else torch.bfloat16
    model = transformers.LlamaForCausalLM.from_pretrained(f"{a.folder}/model-{'f32' if a.kind == 'f32' else 'bf16'}", dtype=dtype)
    words = lambda ids: "".join(f" <{i}>" for i in ids)
    rows = [json.loads(line) for _, line in zip(range(a.steps * PAIRS), open(f"{a.folder}/train.jsonl"))]
    data = datasets.Dataset.from_list([{k.removesuffix("_ids"): words(ids) for k, ids in r.items()} for r in rows])
    lora = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")
    args = trl.DPOConfig(output_dir=tempfile.mkdtemp(prefix="ft-bench-peer-"), per_device_train_batch_size=PAIRS, max_steps=a.steps,
                         learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0, beta=BETA,
                         optim="adamw_torch_fused", bf16=a.kind == "autocast", use_cpu=True, gradient_checkpointing=False, logging_steps=1,
                         report_to="none", save_strategy="no", disable_tqdm=True, train_sampling_strategy="sequential",
                         dataloader_pin_memory=False, max_length=PROMPT + ANSWER)
    trainer = trl.DPOTrainer(model, args=args, processing_class=word_tokenizer(model.config.vocab_size), train_dataset=data, peft_config=lora)
    start = peft.utils.save_and_load.load_peft_weights(f"{a.folder}/start", device="cpu")
    peft.set_peft_model_state_dict(trainer.model, start)
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.add_callback(Rows())
    trainer.train()
    say(kind=a.kind, threads=torch.get_num_threads(), torch=torch.__version__, transformers=transformers.__version__, peft=peft.__version__,
        trl=trl.__version__)


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("command", choices=["make", "run"])
    a.add_argument("folder")
    a.add_argument("kind", nargs="?", choices=["bf16", "autocast", "f32"], default="bf16")
    a.add_argument("--steps", type=int, default=6)
    a.add_argument("--tiny", action="store_true", help="make a tiny model, to try the scripts")
    a = a.parse_args()
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    make(a.folder, a.tiny) if a.command == "make" else run(a)


if __name__ == "__main__":
    sys.exit(main())
