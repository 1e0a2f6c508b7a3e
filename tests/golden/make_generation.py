#!/usr/bin/env python3
"""Makes generation.json: what transformers' generate gives for models of models/, prompts and answers as ids.

    make_generation.py        (a Python with requirements.txt)

Greedy only; each prompt is run alone. A prompt counts when at every step the best score is ahead of the second by
MARGIN, so that rounding cannot turn it. `kept` are the tokens that transformers' warpers leave to sample from."""
import json
from pathlib import Path

import peft
import torch
import transformers

HERE, MARGIN, PROMPTS, NEW = Path(__file__).parent, 1e-3, 4, 16
MODELS = ["llama", "llama-gqa", "llama-biases-gelu", "llama-dynamic", "llama-linear", "llama-llama3", "llama-yarn", "mistral-window",
          "qwen2-layer-types", "qwen3-window-biases", "lora-q-v", "lora-head", "lora-qwen3-tied", "lora-bias-all", "olmo2", "granite",
          "smollm3", "phi3-longrope", "opt-post", "gpt2", "gpt-neox", "gemma2", "gemma3", "lora-phi3", "qwen35", "lora-qwen35", "lora-activated"]
OPTIONS = [{}, {"repetition_penalty": 1.3}, {"no_repeat_ngram_size": 2}, {"min_new_tokens": 12},
           {"repetition_penalty": 0.8, "no_repeat_ngram_size": 3, "min_new_tokens": 8}]
WARPERS = [{"temperature": 0.7, "top_k": 5}, {"top_k": 0, "top_p": 0.6}, {"top_k": 0, "min_p": 0.1}, {"temperature": 2.5, "top_k": 20, "top_p": 0.9, "min_p": 0.05},
           {"top_k": 1}, {"top_k": 0, "top_p": 0.01}]


def load(name):
    case = json.loads((HERE / "models" / name / "case.json").read_text())
    attention = {"attn_implementation": "eager"} if name == "gemma2" else {}    # sdpa has no cap of scores
    model = transformers.AutoModelForCausalLM.from_pretrained(HERE / "models" / name / case["model"], dtype=torch.float32, **attention)
    if case["kind"] == "lora":
        model = peft.PeftModel.from_pretrained(model, HERE / "models" / name / "adapter")
    return model.eval()


def answer(model, ids, end, options):
    """(new tokens, smallest lead). With its cache transformers 5.17 forgets all but the last token of a sequence that
    grows beyond longrope's original length."""
    options = {"use_cache": model.config.model_type != "phi3", **options}
    r = model.generate(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), max_new_tokens=NEW, do_sample=False,
                       eos_token_id=end, pad_token_id=0, return_dict_in_generate=True, output_scores=True, **options)
    lead = min(float(a - b) for a, b in (s[0].double().topk(2).values for s in r.scores))
    new = r.sequences[0, len(ids):].tolist()
    return new[:-1] if new[-1] == end else new, lead


def greedy(name, number, options):
    model, g = load(name), torch.Generator().manual_seed(number)
    vocab = model.config.vocab_size
    rows, end = [], None
    while len(rows) < PROMPTS:
        ids = torch.randint(3, vocab, (int(torch.randint(1, 20, (1,), generator=g)),), generator=g).tolist()
        invocation = getattr(getattr(model, "active_peft_config", None), "alora_invocation_tokens", None)
        if invocation and len(rows) % 2 == 0:     # every second prompt invokes the adapter
            ids[len(ids) // 2:len(ids) // 2] = invocation
        if end is None:                       # a token that the first answer has in its middle
            end = answer(load(name), ids, None, options)[0][NEW // 2]
        new, lead = answer(load(name), ids, end, options)   # a fresh model: `dynamic` positions remember the longest sequence
        if lead > MARGIN:
            rows.append({"ids": ids, "new": new})
    return {"model": name, "options": options, "end": end, "rows": rows}


def kept(number, options):
    g = torch.Generator().manual_seed(number)
    scores = torch.randn(40, generator=g) * 3
    config = transformers.GenerationConfig(do_sample=True, **options)
    model = load("llama")
    config._eos_token_tensor = None
    processors = model._get_logits_processor(config, input_ids_seq_length=1)
    out = processors(torch.tensor([[1]]), scores[None].clone())[0]
    return {"options": options, "scores": [round(float(s), 6) for s in scores], "kept": torch.isfinite(out).nonzero()[:, 0].tolist(),
            "probabilities": [float(p) for p in torch.softmax(out, 0)[torch.isfinite(out)]]}


made = {"made_with": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "peft": peft.__version__},
        "greedy": [greedy(m, 100 * i + j, o) for i, m in enumerate(MODELS) for j, o in enumerate(OPTIONS) if j == 0 or i % len(OPTIONS) == j],
        "kept": [kept(i, o) for i, o in enumerate(WARPERS)]}
text = json.dumps(made, indent=None)
(HERE / "generation.json").write_text(text.replace('{"model"', '\n{"model"').replace('{"options": {"t', '\n{"options": {"t').replace('{"ids"', '\n {"ids"') + "\n")
print(len(made["greedy"]), "cases,", sum(len(set(map(tuple, (r["new"] for r in c["rows"])))) for c in made["greedy"]), "different answers")
