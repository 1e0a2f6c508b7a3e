#!/usr/bin/env python3
"""Makes metrics.json: corpus BLEU and chrF of sacreBLEU, mean ROUGE of rouge-score, of 500 generated pairs of lines; rougeLsum
of texts of several lines; stems of NLTK.

    make_metrics.py        (a Python with requirements.txt)

Words are made of syllables; hypotheses are references with random edits, some lines are odd on purpose. `corpora` are scores of
stretches of the pairs: all, pieces of 25 (short ones without a common 4-gram among them), and every odd line alone."""
import json
import random
from pathlib import Path

import sacrebleu
from nltk.stem.porter import PorterStemmer
from rouge_score.rouge_scorer import RougeScorer

HERE, PAIRS = Path(__file__).parent, 500
ODD = [("", ""), ("", "abc"), ("abc", ""), (".", "."), ("a", "a"), ("a b", "a b"), ("x", "y"), ("...", "... ."), ("1,000.5-2", "1,000.5 - 2"), ("3.-4,x .5 5.", "3. -4, x .5 5 ."),
       ("&quot;A &amp;lt; B&quot; &gt;", '"A < B" >'), ("<skipped>one two", "one two"), ("don't re-do it--now", "don 't re - do it -- now"),
       ("300 \u212aelvin \u0130zu", "300 kelvin izu"), ("no\u00a0break\u3000wide\u2028line\u0085next", "no break wide line next"), ("a\x1cb\x1fc\tD", "a b c d"),
       ("e\u0301tude \u00e9tude", "\u00e9tude \u00e9tude"), ("\U0001F600\u200d\U0001F467 ok \U0001F600", "\U0001F600 ok"), ("\u4eca\u65e5\u306f\u3002\u6674\u308c", "\u4eca\u65e5\u306f\u3001\u96e8"),
       ("\u017fEt \u00dfx \u01c5a", "set ssx dza"), ("la la la la la la", "la la"), ("na na", "na na na na na na"), ("a_b {c} [d] ~e` \\f |g| ^h @i #j $k %l *m +n =o <p> /q",) * 2]


def sentence(r, words):
    text = " ".join(r.choice(words) for _ in range(r.choice((1, 2, 3, 4, 6, 9, 14, 20))))
    return text[:1].upper() + text[1:] + r.choice((".", "!", "?", "", " 3.5%", ", 12-14.", " (so)", ' "ja"'))


def edit(r, text, words):
    parts = text.split()
    for _ in range(r.choice((0, 1, 1, 2, 3, 8))):
        i = r.randrange(len(parts))
        k = r.randrange(6)
        if k == 0:
            parts.insert(i, r.choice(words))
        elif k == 1 and len(parts) > 1:
            del parts[i]
        elif k == 2:
            parts[i] = r.choice((parts[i].upper(), parts[i].lower()))
        elif k == 3:
            parts[i] = parts[i].strip(".,!?") + r.choice((",", ".", "'s", "-x"))
        elif k == 4:
            parts[i:i] = parts[max(0, i - 3):i]
        else:
            r.shuffle(parts)
    return " ".join(parts)


def scores(pairs):
    hyp, ref = [h for h, _ in pairs], [x for _, x in pairs]
    bleu, names = sacrebleu.metrics.BLEU().corpus_score(hyp, [ref]), ("rouge1", "rouge2", "rougeL")
    rouge = [RougeScorer(names).score(x, h) for h, x in pairs]
    stemmed = [RougeScorer(("rouge1", "rougeL"), use_stemmer=True).score(x, h) for h, x in pairs]
    return {"bleu": bleu.score, "precisions": bleu.precisions, "brevity_penalty": bleu.bp, "tokens": [bleu.sys_len, bleu.ref_len],
            "chrf": sacrebleu.metrics.CHRF().corpus_score(hyp, [ref]).score, **{k: sum(s[k].fmeasure for s in rouge) / len(pairs) for k in names},
            "stemmed": {k: sum(s[k].fmeasure for s in stemmed) / len(pairs) for k in ("rouge1", "rougeL")}}


def texts():
    """Texts of several lines, some of them empty, of few words, so that lines have many longest subsequences in common."""
    for _ in range(80):
        few = r.sample(words, r.choice((3, 6, 30)))
        lines = [" ".join(r.choice(few) for _ in range(r.choice((0, 1, 3, 8, 25)))) for _ in range(r.randint(1, 4))]
        other = [edit(r, x, few) if x else x for x in lines]
        r.shuffle(other)
        h, x = "\n".join(other), "\n".join(lines)
        score = RougeScorer(("rougeL", "rougeLsum")).score(x, h)
        yield {"hypothesis": h, "reference": x, **{k: v.fmeasure for k, v in score.items()}}


def stems():
    """Of words with every suffix that the rules know, and of irregular ones."""
    suffixes = ("s es ies sses ss ed ied eed ing y ly ally alli ational tional enci ency anci ancy izer bli ably entli ently eli ely ousli ously ization ation ator "
                "alism iveness fulness ousness aliti ality iviti ivity biliti bility fulli fully logi logy icate ative alize iciti icity ical ful ness al ance ence er ic "
                "able ible ant ement ment ent sion tion ion ou ism ate iti ous ive ize e ll le").split()
    begins = "b tr oat conn troubl happ hopp fil fall fizz siz enjo sp fl sky plast geo theo archaeo rel radic pr cr 3 9x yy synthe comm contr rol".split()
    out = {a + b: "" for a in begins for b in suffixes} | {w: "" for w in "skies sky dying lying tying news innings inning outings cannings howe proceed exceed succeed".split()}
    stemmer = PorterStemmer()
    return {w: stemmer.stem(w) for w in out if len(w) > 3}


# data/metrics/words.cpp relies on it
assert [c for c in range(128, 0x110000) if any(ord(x) < 128 for x in chr(c).lower())] == [0x130, 0x212A]
r = random.Random(7)
syllables = [a + b for a in "b d f k l m n p r s t v z \u00e7 \u00f1 \u043b sh qu".split() for b in "a e i o u \u00e9 \u00f6 ai \u044f".split()]
words = ["".join(r.choice(syllables) for _ in range(r.randint(1, 3))) for _ in range(120)] + ["1,234.5", "7", "it's", "co-op"]
pairs = list(ODD)
while len(pairs) < PAIRS:
    x = sentence(r, words)
    pairs.append((edit(r, x, words), x))
spans = [(0, PAIRS)] + [(i, i + 25) for i in range(0, PAIRS, 25)] + [(i, i + 1) for i in range(len(ODD) + 40)]
made = {"made_with": {"sacrebleu": sacrebleu.__version__, "rouge-score": "0.1.2"},
        "pairs": pairs, "corpora": [{"from": a, "to": b, **scores(pairs[a:b])} for a, b in spans], "texts": list(texts()),
        "stems": stems()}
(HERE / "metrics.json").write_text(json.dumps(made, ensure_ascii=False).replace('["', '\n["').replace('{"from"', '\n{"from"').replace('{"hypothesis"', '\n{"hypothesis"') + "\n")
print(len(pairs), "pairs,", len(spans), "corpora; all:", made["corpora"][0])
