#!/usr/bin/env python3
"""The side of run.py that users have in Python: transformers, PEFT and TRL, on the CPU, in float32.

    peer.py read GGUF FOLDER              the model and its tokenizer as transformers reads them, as a folder of its own
    peer.py ask MODEL PROMPTS NEW         for each text: its tokens, their log probabilities, and NEW greedy tokens
    peer.py start MODEL FOLDER            an adapter whose B is zero, from a fixed seed
    peer.py train MODEL START ROWS STEPS BATCH RATE FOLDER     LoRA on conversations in their order; writes the adapter
    peer.py dpo MODEL START PAIRS STEPS BATCH RATE FOLDER      the same with TRL's DPOTrainer

Prints one JSON object a line.
"""
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1", CUDA_VISIBLE_DEVICES="",
                  HF_DATASETS_CACHE=tempfile.mkdtemp(prefix="ft-bench-datasets-"))
ROWS = os.fdopen(os.dup(1), "w")                     # libraries log on stdout too: that goes to stderr
os.dup2(2, 1)
import torch
import transformers

LORA = dict(r=16, lora_alpha=32, target_modules="all-linear", lora_dropout=0.0, task_type="CAUSAL_LM")


def say(**row):
    print(json.dumps(row), file=ROWS, flush=True)


def rows_of(path):
    return [json.loads(line) for line in open(path)]


def loaded(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    return model, transformers.AutoTokenizer.from_pretrained(folder)


def read(file, folder):
    there, name = str(Path(file).parent), Path(file).name
    model = transformers.AutoModelForCausalLM.from_pretrained(there, gguf_file=name, dtype=torch.float32)
    model.config.__dict__.pop("quantization_config")  # the weights are dequantized, and a model without it can be saved
    plain = transformers.AutoModelForCausalLM.from_config(model.config, dtype=torch.float32)
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(there, gguf_file=name).save_pretrained(folder)


@torch.no_grad()
def ask(folder, prompts, new):
    model, tokenizer = loaded(folder)
    for text in rows_of(prompts):
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        likelihoods = model(ids).logits[0, :-1].double().log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        answer = model.generate(ids, max_new_tokens=int(new), do_sample=False)[0, ids.shape[1]:]
        say(ids=ids[0].tolist(), logprobs=likelihoods.tolist(), answer=answer.tolist())


def start(folder, output):
    import peft
    torch.manual_seed(2)
    peft.get_peft_model(loaded(folder)[0], peft.LoraConfig(**LORA)).save_pretrained(output)


def conversation(tokenizer, messages):
    """Tokens and labels: the answer and the token that ends it are trained."""
    plain = lambda m, **more: tokenizer.apply_chat_template(m, tokenize=False, **more)
    whole, question = plain(messages), plain(messages[:-1], add_generation_prompt=True)
    answer = question + messages[-1]["content"] + tokenizer.eos_token
    assert whole.startswith(answer), "the template does not end an answer with the end token"
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (question, answer[len(question):], whole[len(answer):])]
    return sum(ids, []), [-100] * len(ids[0]) + ids[1] + [-100] * len(ids[2])


def padded(batch):
    longest = max(len(ids) for ids, _ in batch)
    fill = lambda part, value: torch.tensor([row[part] + [value] * (longest - len(row[part])) for row in batch])
    mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in batch])
    return {"input_ids": fill(0, 0), "labels": fill(1, -100), "attention_mask": mask}


@torch.no_grad()
def cross_entropy(logits, labels):
    """The loss of these logits without the rounding of PyTorch's kernel, which adds up 49,152 exponentials in float32."""
    trained = labels[:, 1:] != -100
    return torch.nn.functional.cross_entropy(logits[:, :-1][trained].double(), labels[:, 1:][trained]).item()


def train(folder, begin, data, steps, batch, rate, output):
    import peft
    model, tokenizer = loaded(folder)
    model.config.use_cache = False
    model = peft.PeftModel.from_pretrained(model, begin, is_trainable=True).train()
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=float(rate), weight_decay=0.0, fused=True)
    rows, batch = [conversation(tokenizer, row["messages"]) for row in rows_of(data)], int(batch)
    for i in range(int(steps)):
        taken = rows[i * batch:(i + 1) * batch]
        inputs = padded(taken)
        out = model(**inputs)
        loss = out.loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        say(step=i + 1, loss=loss.item(), summed_in_f64=cross_entropy(out.logits, inputs["labels"]), grad_norm=norm.item(),
            tokens=sum(len(ids) for ids, _ in taken))
    model.save_pretrained(output)
    say(torch=torch.__version__, transformers=transformers.__version__, peft=peft.__version__, threads=torch.get_num_threads())


class Rows(transformers.TrainerCallback):
    def on_log(self, args, state, control, logs=None, **_):
        if logs and "loss" in logs:
            say(step=state.global_step, loss=logs["loss"], grad_norm=logs["grad_norm"])


def dpo(folder, begin, data, steps, batch, rate, output):
    import datasets
    import peft
    import trl
    model, tokenizer = loaded(folder)
    args = trl.DPOConfig(output_dir=output, per_device_train_batch_size=int(batch), max_steps=int(steps), learning_rate=float(rate), beta=0.1,
                         lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0, optim="adamw_torch_fused", use_cpu=True,
                         bf16=False, gradient_checkpointing=False, logging_steps=1, report_to="none", save_strategy="no", disable_tqdm=True,
                         train_sampling_strategy="sequential", dataloader_pin_memory=False, max_length=512)
    trainer = trl.DPOTrainer(model, args=args, processing_class=tokenizer, train_dataset=datasets.Dataset.from_list(rows_of(data)),
                             peft_config=peft.LoraConfig(**LORA))
    peft.set_peft_model_state_dict(trainer.model, peft.utils.save_and_load.load_peft_weights(begin, device="cpu"))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.add_callback(Rows())
    trainer.train()
    say(trl=trl.__version__, transformers=transformers.__version__, torch=torch.__version__)


transformers.utils.logging.disable_progress_bar()
transformers.logging.set_verbosity_error()
{f.__name__: f for f in (read, ask, start, train, dpo)}[sys.argv[1]](*sys.argv[2:])
