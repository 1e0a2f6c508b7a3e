#!/usr/bin/env python3
"""Makes small tokenizers of every kind, a folder each, and digests.json: what Hugging Face's tokenizers library makes of
10,000 random strings with each. Committed; tests need no Python.

The strings come from a generator that the test has too (SplitMix64), of the ranges and pieces in digests.json. A digest is
the beginning of a SHA-256 over the answers for 500 strings, so that a difference is found quickly: `encode` over lines of ids,
`decode` over texts, each with a line feed behind it, of the ids of a string with and without special tokens and of random ids.
"""
import base64, hashlib, io, json, tempfile
from pathlib import Path

import sentencepiece, tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import LlamaTokenizer, T5Tokenizer
from transformers.tokenization_utils_base import generate_merges

HERE = Path(__file__).parent
SEED, STRINGS, BLOCK = 20260801, 10000, 500
SPACE = "\u2581"
# Characters that have been what they are since Unicode 5, so that no library's version of Unicode matters.
RANGES = [(0x21, 0x7e), (0x41, 0x5a), (0x61, 0x7a), (0x61, 0x7a), (0x61, 0x7a), (0x30, 0x39), (0xa1, 0xff), (0x100, 0x17f), (0x300, 0x333),
          (0x391, 0x3a1), (0x3b1, 0x3c9), (0x410, 0x44f), (0x5d0, 0x5ea), (0x621, 0x63a), (0x660, 0x669), (0x905, 0x939), (0xe01, 0xe2e),
          (0x1100, 0x1112), (0x1161, 0x1175), (0x1e00, 0x1e95), (0x2000, 0x200f), (0x2074, 0x208e), (0x2100, 0x2138), (0x2160, 0x217f),
          (0x2460, 0x249b), (0x3041, 0x3093), (0x30a1, 0x30f6), (0x4e00, 0x4fff), (0xac00, 0xacff), (0xe000, 0xe020), (0xfb00, 0xfb06),
          (0xff01, 0xff5e), (0x1d400, 0x1d433), (0x20000, 0x2002f), (0x1f600, 0x1f60f), (0x1, 0x1f), (0x7f, 0x9f)]
GLUE = [" ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u200b", "\u200d", "\u3000", "'", "\u2019", "-", ".", ", ", "", "", ""]
WORDS = ["the", "The", "kites", "it's", "IT'S", "we'\u017fo", "don't", "I'LL", "you've", "12", "1234567", "3.14", "caf\u00e9", "cafe\u0301", "na\u00efve", "\u212b",
         "\u00c5", "\u1e9e\u00df", "\u0130", "\u212a", "\u180e", "a\u180eb", "\u2028", "\u2581", "\u2581\u2581low", "<s>", "</s>", "<unk>", "\ufeff", "\ufffd",
         "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\u00bd", "e\u0323\u0301", "\u0041\u030a\u0323", "\u1112\u1161\u11ab",
         "ab", "abc", "preword", "word", "words", "<0x41>", "wholewordish"]
NAMES = ["Ada", "Omar", "Lena", "Bruno", "Mei", "Ravi"]
THINGS = ["red apples", "small boats", "old books", "round stones", "warm loaves", "paper kites"]
LINES = [f"{a} has {i + 2} {t} and gives {i % 3 + 1} of them to {b}." for i, (a, b, t) in enumerate(
    (a, b, t) for a in NAMES for b in NAMES for t in THINGS if a != b)]
LINES += [f"How many {t} are left? There are {i * 37} {t} left, it's true; they don't know." for i, t in enumerate(THINGS * 5)]
LINES += ["caf\u00e9, na\u00efve, Z\u00fcrich, 12.50 \u20ac", "\u0434\u0430, \u043d\u0435\u0442", "\u4f60\u597d\u3002\u4e16\u754c", "for (int i = 0; i < 10; ++i)\n    x += 1;"] * 8


class Random:
    """SplitMix64."""
    def __init__(self, seed):
        self.state = seed

    def __call__(self, n):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 33) % n


def random_text(r, tokens):
    out = []
    for _ in range(1 + r(9)):
        kind = r(16)
        if kind == 0:
            out.append(WORDS[r(len(WORDS))])
        elif kind <= 2 and tokens:
            out.append(tokens[r(len(tokens))])
        else:
            low, high = RANGES[r(len(RANGES))]
            out += [chr(low + r(high - low + 1)) for _ in range(1 + r(7))]
        out.append(GLUE[r(len(GLUE))])
    return "".join(out)


# ---- tokenizers ----------------------------------------------------------------------------------------------------

REGEX = {
    "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek": r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "o200k": r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
}


def split(pattern, behavior="isolated"):
    return pre_tokenizers.Split(Regex(pattern), behavior=behavior, invert=False)


def byte_level(prefix=False, use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=use_regex)


def flags(content, **more):
    return AddedToken(content, **{**dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=False), **more})


FLAGS = [flags("<left>", lstrip=True, special=True), flags("<right>", rstrip=True), flags("<both>", lstrip=True, rstrip=True, special=True),
         flags("word", single_word=True), flags("caf\u00e9", normalized=True), flags("<norm>", normalized=True, special=True), flags("<nor", special=True),
         flags("ab", normalized=True), flags("abc", normalized=True), flags(" <x>"), flags("\n\n", rstrip=True)]


def bytes_bpe(before, added=(), size=360, normalizer=None, bos=None, extra_words=(), **options):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = before
    t.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    model = json.loads(t.to_str())["model"]
    for w in extra_words:                            # in the vocabulary, but out of the merges' reach
        model["vocab"].setdefault(byte_level().pre_tokenize_str(w)[0][0], len(model["vocab"]))
    t = Tokenizer(models.BPE(model["vocab"], [tuple(m) for m in model["merges"]], **options))
    t.pre_tokenizer, t.decoder = before, decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    for a in [flags("<|endoftext|>", special=True), *added]:
        t.add_special_tokens([a]) if a.special else t.add_tokens([a])
    frame = [("<|endoftext|>", t.token_to_id("<|endoftext|>"))]
    t.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=frame) if bos else processors.ByteLevel(trim_offsets=False)
    return t


def train_spm(**options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=out, num_threads=1, minloglevel=2, hard_vocab_limit=False,
                                             remove_extra_whitespaces=False, **options)
    return out.getvalue()


def pieces_of(raw):
    sp = sentencepiece.SentencePieceProcessor(model_proto=raw)
    return [(sp.id_to_piece(i), sp.get_score(i)) for i in range(sp.get_piece_size())]


def train_llama(byte_fallback=True):
    return train_spm(vocab_size=420 if byte_fallback else 180, model_type="bpe", byte_fallback=byte_fallback, normalization_rule_name="identity", split_digits=True,
                     allow_whitespace_only_pieces=True, unk_id=0, bos_id=1, eos_id=2, pad_id=-1)


def spm_bpe(before, normalizer=None, byte_fallback=True, first_strip=True, added=()):
    pieces = pieces_of(train_llama(byte_fallback))
    vocab = {p: i for i, (p, _) in enumerate(pieces)}
    t = Tokenizer(models.BPE(vocab, generate_merges(vocab, dict(pieces)), unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback))
    if normalizer:
        t.normalizer = normalizer
    if before:
        t.pre_tokenizer = before
    strip = [decoders.Strip(" ", 1, 0)] if first_strip else []
    t.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    t.add_special_tokens([flags(x, special=True) for x in ("<unk>", "<s>", "</s>")])
    for a in added:
        t.add_special_tokens([a]) if a.special else t.add_tokens([a])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def llama_model(folder, legacy):
    """A tokenizer.model with both of LLaMA's rules for the space in front: transformers' LlamaTokenizer, and the normalizers that its
    tokenizer.json had before."""
    (folder / "tokenizer.model").write_bytes(train_llama())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer", "legacy": legacy, "add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>",
                                                             "unk_token": "<unk>"}, indent=2) + "\n")
    if legacy:
        return spm_bpe(None, normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]))
    return LlamaTokenizer.from_pretrained(folder)._tokenizer


# A few rules of each sort that NFKC has, so that the table is small: a letter, several letters, nothing, two characters to one.
RULES = {"\uff21": "A", "\uff41": "a", "\ufb01": "fi", "\ufb03": "ffi", "\u00bd": "1/2", "\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ", "\r": " ", "\u200b": "", "\u00ad": "",
         "e\u0301": "\u00e9", "a\u030a": "\u00e5", "o\u0308": "\u00f6", "\u0301": "'", "\u2460": "1", "\u212b": "\u00c5", "\u1100\u1161": "\uac00", "\u0041\u030a": "\u00c5", "\u2026": "...", "\u2002": " ", "\u2003": " "}


def train_t5(byte_fallback=False):
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for a, b in RULES.items():
            rules.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        rules.flush()
        raw = train_spm(vocab_size=420 if byte_fallback else 180, model_type="unigram", byte_fallback=byte_fallback, normalization_rule_tsv=rules.name,
                        pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    return raw


def t5_model(folder):
    """T5Tokenizer of transformers on a spiece.model."""
    (folder / "spiece.model").write_bytes(train_t5())
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer", "extra_ids": 5, "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>",
                                                             "additional_special_tokens": [f"<extra_id_{k}>" for k in range(5)]}, indent=2) + "\n")
    return T5Tokenizer.from_pretrained(folder)._tokenizer


def t5_like(before, normalizer=(), byte_fallback=False, suffix=True):
    raw = train_t5(byte_fallback)
    charsmap = sentencepiece_model_pb2.ModelProto.FromString(raw).normalizer_spec.precompiled_charsmap
    extra = [f"<extra_id_{k}>" for k in range(5)]
    t = Tokenizer(models.Unigram(pieces_of(raw) + [(x, 0.0) for x in reversed(extra)], unk_id=2, byte_fallback=byte_fallback))
    table = normalizers.Precompiled(charsmap)
    t.normalizer = normalizers.Sequence([table, *normalizer]) if normalizer else table
    t.pre_tokenizer = before
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(SPACE, "always")]) if byte_fallback else decoders.Metaspace(SPACE, "always")
    t.add_special_tokens([flags(x, special=True) for x in ["<pad>", "</s>", "<unk>", *extra]])
    if suffix:
        t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return t


def metaspace(scheme, split=True):
    return pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=split)


def sequence(*parts):
    return pre_tokenizers.Sequence(list(parts))


KINDS = {
    "gpt2": lambda: bytes_bpe(byte_level(True, True), bos=True),
    "llama3": lambda: bytes_bpe(sequence(split(REGEX["llama3"]), byte_level()), added=FLAGS, normalizer=normalizers.NFC(), ignore_merges=True,
                                extra_words=["kites", " boats", "\u4f60\u597d"]),
    "qwen2": lambda: bytes_bpe(sequence(split(REGEX["qwen2"]), byte_level()), normalizer=normalizers.NFC()),
    "nfkc": lambda: bytes_bpe(sequence(split(REGEX["o200k"]), byte_level()), normalizer=normalizers.NFKC(), added=FLAGS),
    "nfd": lambda: bytes_bpe(pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), byte_level()]), normalizer=normalizers.NFD(), added=FLAGS),
    "deepseek": lambda: bytes_bpe(sequence(split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(REGEX["deepseek"]), byte_level())),
    "falcon": lambda: bytes_bpe(sequence(pre_tokenizers.Punctuation("contiguous"), byte_level(False, True), pre_tokenizers.Digits(False), split("[0-9][0-9][0-9]"))),
    "starcoder": lambda: bytes_bpe(sequence(pre_tokenizers.Digits(True), byte_level(False, True))),
    "llama2": lambda: spm_bpe(None, normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]), added=FLAGS),
    "mistral": lambda: spm_bpe(metaspace("first", False)),
    "no-bytes": lambda: spm_bpe(metaspace("always", True), byte_fallback=False),
    "gemma": lambda: spm_bpe(pre_tokenizers.Split(" ", "merged_with_previous"), normalizers.Replace(" ", SPACE), first_strip=False, added=FLAGS),
    "t5": lambda: t5_like(sequence(pre_tokenizers.WhitespaceSplit(), metaspace("always"))),
    "unigram-bytes": lambda: t5_like(metaspace("first"), [normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), SPACE)], byte_fallback=True),
    "t5-model": t5_model,
    "llama-model": lambda folder: llama_model(folder, legacy=False),
    "llama-model-legacy": lambda folder: llama_model(folder, legacy=True),
}


def digest(lines):
    return hashlib.sha256("".join(x + "\n" for x in lines).encode()).hexdigest()[:16]


def digests(t, tokens, seed):
    r, encode, decode = Random(seed), [], []
    for _ in range(STRINGS // BLOCK):
        ids, texts = [], []
        for _ in range(BLOCK):
            text = random_text(r, tokens)
            with_special, plain = t.encode(text).ids, t.encode(text, add_special_tokens=False).ids
            noise = [r(t.get_vocab_size()) for _ in range(1 + r(8))]
            ids += [" ".join(map(str, with_special)), " ".join(map(str, plain))]
            texts += [t.decode(with_special, skip_special_tokens=False), t.decode(with_special), t.decode(noise, skip_special_tokens=False), t.decode(noise)]
        encode.append(digest(ids))
        decode.append(digest(texts))
    return {"encode": encode, "decode": decode}


def main():
    kinds = {}
    for n, (name, make) in enumerate(KINDS.items()):
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        if "-model" in name:
            t = make(folder)
        else:
            (folder / "tokenizer.json").write_text(json.dumps(json.loads(make().to_str()), ensure_ascii=False) + "\n")
            t = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokens = [a.content for _, a in sorted(t.get_added_tokens_decoder().items())]
        kinds[name] = {"seed": SEED + n, "tokens": tokens, **digests(t, tokens, SEED + n)}
        print(f"{name}: {t.get_vocab_size()} ids, {sum(f.stat().st_size for f in folder.iterdir())} bytes")
    made = {"made_with": {"tokenizers": tokenizers.__version__, "sentencepiece": sentencepiece.__version__}, "strings": STRINGS, "block": BLOCK,
            "ranges": RANGES, "glue": GLUE, "words": WORDS, "kinds": kinds}
    (HERE / "digests.json").write_text(json.dumps(made, indent=1) + "\n")


main()
