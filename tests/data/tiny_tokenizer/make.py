#!/usr/bin/env python3
"""Makes tokenizer.model, a SentencePiece BPE of 400 pieces trained on the sentences below, and golden.json:
what other libraries make of some texts with it. Committed; tests need no Python.

legacy: the tokenizers library with the normalizers that LLaMA's tokenizer.json has.
new:    transformers' LlamaTokenizer with legacy=False.
Both agree with the sentencepiece library where there are no special tokens.
"""
import io, json, re, tempfile
from pathlib import Path

import sentencepiece, tokenizers, transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors
from transformers.tokenization_utils_base import generate_merges

HERE = Path(__file__).parent
NAMES = ["Ada", "Omar", "Lena", "Bruno", "Mei", "Ravi"]
THINGS = ["red apples", "small boats", "old books", "round stones", "warm loaves", "paper kites"]
LINES = [f"{a} has {i + 2} {t} and gives {i % 3 + 1} of them to {b}." for i, (a, b, t) in enumerate(
    (a, b, t) for a in NAMES for b in NAMES for t in THINGS if a != b)]
LINES += [f"How many {t} are left? There are {i} {t} left." for i, t in enumerate(THINGS * 5)]
LINES += ["The river runs past the mill, and the mill turns the stone.", "A kite is lighter than a boat; a boat is slower than a kite!",
          "\"Bread,\" says the baker, \"is best when it is warm.\"", "caf\u00e9, na\u00efve, Z\u00fcrich, 12.50 \u20ac"]
TEXTS = ["Ada has 7 red apples.", "", " ", "  two spaces", "end ", "tab\there\nand lines\r\n", "caf\u00e9 na\u00efve", "\u4f60\u597d\u3002",
         "\U0001f600 \U0001f468\u200d\U0001f469", "e\u0301", "\u2581low line", "a\u00a0b", "How many? 12.50 \u20ac!", "\u0000", "x" * 50]
SPECIAL = ["<s>Ada</s>", "Ada </s> has", "<s> Ada", "Ada<unk>has", "</s></s>", "<s>", "a <s>b</s> c"]
IDS = [[1, 2], [0], [3, 4, 5], [231, 152, 134], [231, 152], [259, 260, 13, 300], [1, 300, 301, 2, 302], [2, 300]]


def train():
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=out, vocab_size=400, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
        split_digits=True, hard_vocab_limit=False, num_threads=1, minloglevel=2, unk_id=0, bos_id=1, eos_id=2, pad_id=-1)
    return out.getvalue()


def legacy(raw):
    sp = sentencepiece.SentencePieceProcessor(model_proto=raw)
    scores = {sp.id_to_piece(i): sp.get_score(i) for i in range(sp.get_piece_size())}
    vocab = {p: i for i, p in enumerate(scores)}
    t = Tokenizer(models.BPE(vocab, generate_merges(vocab, scores), unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_special_tokens([AddedToken(x, normalized=False, special=True) for x in ("<unk>", "<s>", "</s>")])
    for text in TEXTS:
        assert t.encode(text).ids == sp.encode(text), text
    return t


def new(raw):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tokenizer.model").write_bytes(raw)
        (Path(folder) / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": "LlamaTokenizer", "legacy": False, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))
        (Path(folder) / "config.json").write_text('{"model_type": "llama"}')
        return transformers.AutoTokenizer.from_pretrained(folder)


def main():
    raw = train()
    (HERE / "tokenizer.model").write_bytes(raw)
    old, young = legacy(raw), new(raw)
    golden = {
        "made_with": {m.__name__: m.__version__ for m in (sentencepiece, tokenizers, transformers)},
        "legacy": [[x, old.encode(x, add_special_tokens=False).ids] for x in TEXTS + SPECIAL],
        "new": [[x, young.encode(x, add_special_tokens=False)] for x in TEXTS + SPECIAL],
        "decode": [[ids, old.decode(ids, skip_special_tokens=False), old.decode(ids, skip_special_tokens=True)] for ids in IDS],
    }
    lines = [f'"{k}": ' + ("[\n" + ",\n".join(json.dumps(r) for r in v) + "\n]" if isinstance(v, list) else json.dumps(v)) for k, v in golden.items()]
    (HERE / "golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
