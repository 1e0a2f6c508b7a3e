#!/usr/bin/env python3
"""Makes beams.json: beam search by transformers' generate with models of models/, prompts and answers as ids.

    make_beams.py [MODEL...]        (a Python with requirements.txt; with names the other models' cases stay as they are)

Each prompt is run alone. A prompt counts when its answer is the same in f64 and with weights changed by 1e-5 of themselves, so that
rounding cannot turn it. The end tokens are those that cut many answers somewhere inside."""
import copy
import json
import sys
from pathlib import Path

import peft
import torch
import transformers

HERE, PROMPTS, NEW = Path(__file__).parent, 20, 14
CASES = [("llama", 1, {"num_beams": 2}), ("llama-gqa", 1, {"num_beams": 4, "early_stopping": True}), ("llama-gqa", 1, {"num_beams": 4, "early_stopping": "never", "length_penalty": 2.0}),
         ("llama", 2, {"num_beams": 5, "length_penalty": 0.6}), ("llama", 1, {"num_beams": 3, "length_penalty": -1.0, "early_stopping": "never"}),
         ("mistral-window", 1, {"num_beams": 4, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2}), ("llama-biases-gelu", 1, {"num_beams": 3, "min_new_tokens": 8, "length_penalty": 0.0}),
         ("lora-q-v", 3, {"num_beams": 4, "min_length": 12, "early_stopping": True, "length_penalty": 1.5}), ("llama-yarn", 1, {"num_beams": 7, "forced_eos_token_id": 5}),
         ("qwen3-window-biases", 1, {"num_beams": 4}),
         ("t5", 1, {}), ("t5-v11", 1, {"num_beams": 4, "length_penalty": 0.6}), ("t5-v11", 1, {"num_beams": 3, "forced_bos_token_id": 7, "no_repeat_ngram_size": 2}),
         ("lora-t5", 2, {"num_beams": 4, "early_stopping": True, "min_new_tokens": 4}),
         ("qwen35", 1, {"num_beams": 4, "length_penalty": 0.6}), ("lora-qwen35", 2, {"num_beams": 3, "early_stopping": True})]


def load(name):
    case = json.loads((HERE / "models" / name / "case.json").read_text())
    kind = transformers.AutoModelForSeq2SeqLM if "t5" in name else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(HERE / "models" / name / case["model"], dtype=torch.float32)
    if case["kind"] == "lora":
        model = peft.PeftModel.from_pretrained(model, HERE / "models" / name / "adapter")
    model.generation_config = transformers.GenerationConfig(pad_token_id=0, decoder_start_token_id=0 if "t5" in name else None)
    return model.eval()


def answer(model, ids, ends, options):
    new = model.generate(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), max_new_tokens=NEW, do_sample=False,
                         eos_token_id=ends or None, pad_token_id=0, **options)[0, 1 if model.config.is_encoder_decoder else len(ids):].tolist()
    return new[:next((i for i, t in enumerate(new) if t in ends), len(new))]


def shaken(model):
    """The model in f64, and twice with its weights changed a little."""
    yield copy.deepcopy(model).double()
    for seed in range(2):
        g, other = torch.Generator().manual_seed(seed), copy.deepcopy(model)
        with torch.no_grad():
            for p in other.parameters():
                p.mul_(1 + 1e-5 * torch.randn(p.shape, generator=g))
        yield other


def case(number, name, count, options):
    model, g = load(name), torch.Generator().manual_seed(number)
    vocab = model.config.vocab_size
    pool = [torch.randint(3, vocab, (int(torch.randint(1, 20, (1,), generator=g)),), generator=g).tolist() for _ in range(4 * PROMPTS)]
    free = [answer(model, p, [], {**options, "min_new_tokens": 0, "min_length": 0, "forced_eos_token_id": None}) for p in pool[:PROMPTS]]
    ends = sorted(range(3, vocab), key=lambda t: sum(t in f[1:-2] for f in free) - sum(t in f[:1] for f in free))[-count:]
    if "forced_eos_token_id" in options:
        options = {**options, "forced_eos_token_id": ends[-1]}
    others, rows = list(shaken(model)), []
    for p in pool:
        if len(rows) == PROMPTS:
            break
        new = answer(model, p, ends, options)
        if all(answer(o, p, ends, options) == new for o in others):
            rows.append({"ids": p, "new": new})
    assert len(rows) == PROMPTS, (name, options, len(rows))
    print(name, options, "lengths", [len(r["new"]) for r in rows])
    return {"model": name, "options": options, "ends": ends, "max_new_tokens": NEW, "rows": rows}


there = json.loads((HERE / "beams.json").read_text())["cases"] if sys.argv[1:] else []
made = {"made_with": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "peft": peft.__version__},
        "cases": [case(i, *c) if not sys.argv[1:] or c[0] in sys.argv[1:] else there[i] for i, c in enumerate(CASES)]}
(HERE / "beams.json").write_text(json.dumps(made).replace('{"model"', '\n{"model"').replace('{"ids"', '\n {"ids"') + "\n")
