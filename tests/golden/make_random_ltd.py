#!/usr/bin/env python3
"""Makes random_ltd.json: loss and gradients of models beside it whose second layer sees only some of the tokens of each
sequence (random-LTD), by transformers. Which tokens is chance, and the chance is ft's (engine/core/random.h,
engine/nn/picked_rows.cpp), written again here.

    make_random_ltd.py FILE

Of each gradient the file holds its norm and its products with two waves."""
import json
import math
import sys
from pathlib import Path

import torch

from model_cases import IGNORED, VERSIONS, load_model

HERE = Path(__file__).resolve().parent
MASK = (1 << 32) - 1


def philox(counter, key):
    k = [key & MASK, key >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ k[0], b & MASK, (a >> 32) ^ counter[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return counter


def named(key, name):
    """The key of an independent family of numbers."""
    h = 14695981039346656037
    for c in name.encode():
        h = (h ^ c) * 1099511628211 & (1 << 64) - 1
    r = philox([h & MASK, h >> 32, 0x6674, 0], key)
    return r[0] << 32 | r[1]


def picked(lengths, most, key):
    """Of each sequence `most` rows, ascending, from 0; a row's number counts through all sequences."""
    rows, first = [], 0
    for n in lengths:
        mine, wanted = [], min(most, n)
        for row in range(n):
            i = first + row
            if wanted and philox([i // 4, 0, 0, 0], key)[i % 4] * (n - row) >> 32 < wanted:
                mine.append(row)
                wanted -= 1
        rows.append(mine)
        first += n
    return rows


def seeing_part(layer, rows):
    """The layer's forward, of some rows only; the others pass by. Positions of LLaMA stay those of the rows; T5's distances
    count the rows that are left."""
    whole = layer.forward

    def forward(hidden, attention_mask=None, position_bias=None, encoder_hidden_states=None, encoder_attention_mask=None,
                encoder_decoder_position_bias=None, position_embeddings=None, **more):
        n = len(rows)
        corner = lambda x: None if x is None else x[:, :, :n, :n]
        top = lambda x: None if x is None else x[:, :, :n]
        if position_embeddings is None:
            made, *_ = whole(hidden[:, rows], attention_mask=corner(attention_mask), position_bias=corner(position_bias),
                             encoder_hidden_states=encoder_hidden_states, encoder_attention_mask=top(encoder_attention_mask),
                             encoder_decoder_position_bias=top(encoder_decoder_position_bias), **more)
        else:
            more.pop("position_ids", None)
            made = whole(hidden[:, rows], attention_mask=corner(attention_mask),
                         position_embeddings=tuple(x[:, rows] for x in position_embeddings), **more)
        out = hidden.clone()
        out[:, rows] = made
        return out if position_embeddings is not None else (out, position_bias, encoder_decoder_position_bias)

    layer.forward = forward
    return whole


def total_loss(model, row):
    """Of one sample: the sum over its targets, and their number."""
    ids, labels = torch.tensor([row["input_ids"]]), torch.tensor([row["labels"]])
    if model.config.is_encoder_decoder:
        logits = model(input_ids=ids, labels=labels, use_cache=False).logits
    else:
        logits, labels = model(input_ids=ids, use_cache=False).logits[:, :-1], labels[:, 1:]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
    return loss, int((labels != IGNORED).sum())


def case(golden, stack, encoder, most):
    folder = HERE / "models" / golden
    spec = {"model_type": json.loads((folder / "model/config.json").read_text())["model_type"]}
    model = load_model(spec, folder / "model")
    rows = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()][:3]
    layer = model.get_submodule(stack)[1]
    side = "labels" if model.config.is_encoder_decoder and not encoder else "input_ids"
    lengths = [len(r[side]) for r in rows]
    chosen = picked(lengths, most, named(named(0, "random_ltd"), f"{stack}.1"))
    loss, targets = 0, 0
    for row, part in zip(rows, chosen):
        whole = seeing_part(layer, part)
        one, n = total_loss(model, row)
        layer.forward = whole
        loss, targets = loss + one, targets + n
    (loss / targets).backward()
    gradients = {}
    for name, p in model.named_parameters():
        g = p.grad.double().flatten()
        i = torch.arange(len(g), dtype=torch.double)
        gradients[name] = [float(g.norm()), float((g * torch.sin(i + 1)).sum()), float((g * torch.cos(1.7 * i)).sum())]
    return {"golden": golden, "stack": stack, "encoder": encoder, "most": most, "picked": chosen, "loss": float(loss.detach()) / targets,
            "gradients": gradients}


def main():
    torch.set_num_threads(1)
    cases = [case("llama", "model.layers", False, 6), case("t5-v11", "encoder.block", True, 5), case("t5-v11", "decoder.block", False, 4)]
    assert all(math.isfinite(c["loss"]) for c in cases)
    with open(sys.argv[1], "w") as f:
        f.write(f'{{"made_with": {json.dumps(VERSIONS)},\n"cases": [\n ' + ",\n ".join(json.dumps(c) for c in cases) + "]}\n")


main()
