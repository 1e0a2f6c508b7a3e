#!/usr/bin/env python3
"""Makes an invented pair of languages, to see translation being learnt from nothing.

    make_pairs.py FOLDER      writes train.jsonl (8,000 pairs), held_out.jsonl (200) and start/ (config.json, tokenizer.json)

Lim:  [the] [adjective] noun[-i] verb[-ed] [the] [adjective] noun[-i] [adverb] . or ?
Oru:  [adverb] [ka-]noun [adjective] [ka-]noun-n [adjective] [ta-]verb [wo] .

Every word has one translation. Oru has no article, puts the verb last and adjectives behind their nouns, marks plurals with ka-,
objects with -n and the past with ta-, and ends a question with wo. No held-out sentence is among those for training."""
import json
import random
import sys
from pathlib import Path

r = random.Random(11)


def lexicon(count, onsets, vowels, taken):
    words = []
    while len(words) < count:
        word = "".join(r.choice(onsets) + r.choice(vowels) for _ in range(r.choice((2, 2, 3))))
        if word not in taken:
            taken.add(word)
            words.append(word)
    return words


COUNTS = {"noun": 60, "verb": 24, "adjective": 20, "adverb": 8}
lim, oru = set(), {"wo"}
WORDS = {kind: list(zip(lexicon(n, "b d f g l m p s t v".split(), "a e o u".split(), lim),
                        lexicon(n, "ch h j k n r sh y z".split(), "a e i o u".split(), oru))) for kind, n in COUNTS.items()}


def noun_phrase(as_object):
    """(words of Lim, words of Oru)"""
    (noun, nomu), many = r.choice(WORDS["noun"]), r.random() < 0.4
    here, there = (["the"] if r.random() < 0.5 else []), [("ka-" if many else "") + nomu + ("-n" if as_object else "")]
    if r.random() < 0.5:
        adjective, quality = r.choice(WORDS["adjective"])
        here.append(adjective)
        there.append(quality)
    return here + [noun + ("-i" if many else "")], there


def sentence():
    (verb, doing), past, asks = r.choice(WORDS["verb"]), r.random() < 0.4, r.random() < 0.2
    (subject, who), (obj, whom) = noun_phrase(False), noun_phrase(True)
    here, there = subject + [verb + ("-ed" if past else "")] + obj, who + whom + [("ta-" if past else "") + doing]
    if r.random() < 0.3:
        adverb, how = r.choice(WORDS["adverb"])
        here, there = here + [adverb], [how] + there
    return " ".join(here + ["?" if asks else "."]), " ".join(there + (["wo"] if asks else []) + ["."])


def tokenizer():
    """Unigram: a token a word or ending, and every letter."""
    pieces = [x for pairs in WORDS.values() for pair in pairs for x in pair] + ["the", "wo", ".", "?", "translate", "Lim", "to", "Oru:", "ka", "ta"]
    endings = ["-", "-i", "-ed", "-n", *(w for kind in ("noun", "verb") for _, w in WORDS[kind])]
    letters = list("abcdefghijklmnopqrstuvwxyzLO?.:-")
    vocab = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]] + [["\u2581" + x, -5.0] for x in pieces] + [[x, -6.0] for x in endings] + [["\u2581", -8.0]]
    vocab += [[x, -12.0] for x in letters if x not in {p for p, _ in vocab}]
    special = [{"id": i, "content": x, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for i, x in enumerate(("<pad>", "</s>", "<unk>"))]
    meta = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    end = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
           "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None, "pre_tokenizer": meta, "post_processor": end, "decoder": meta,
            "model": {"type": "Unigram", "unk_id": 2, "vocab": vocab, "byte_fallback": False}}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def main(folder):
    pairs = {}
    while len(pairs) < 8200:
        here, there = sentence()
        pairs[here] = there
    rows = [json.dumps({"translation": {"lim": a, "oru": b}}) + "\n" for a, b in pairs.items()]
    write(folder / "train.jsonl", "".join(rows[:8000]))
    write(folder / "held_out.jsonl", "".join(rows[8000:]))
    made = tokenizer()
    write(folder / "start/tokenizer.json", made)
    write(folder / "start/tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "extra_ids": 0})
    size = -len(made["model"]["vocab"]) // 8 * -8
    write(folder / "start/config.json", {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "vocab_size": size, "d_model": 128, "d_kv": 32, "num_heads": 4, "d_ff": 256,
                                         "num_layers": 2, "num_decoder_layers": 2, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "dropout_rate": 0.05,
                                         "layer_norm_epsilon": 1e-6, "initializer_factor": 1.0, "feed_forward_proj": "gated-gelu", "is_encoder_decoder": True,
                                         "tie_word_embeddings": True, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1})
    print(*rows[:3], sep="")


main(Path(sys.argv[1]))
