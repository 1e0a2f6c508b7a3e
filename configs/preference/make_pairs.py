#!/usr/bin/env python3
"""Makes pairs.jsonl (prompt, chosen, rejected) of the demo's questions: the right number and a wrong one, which has a
digit changed, two digits exchanged, or one left out or too many. Answers begin with a space: prompt and answer are
tokenized as one text."""
import json, random
from pathlib import Path


def wrong(right, r):
    while True:
        d = list(right)
        i = r.randrange(len(d))
        kind = r.randrange(4)
        if kind == 0:
            d[i] = str(r.randrange(10))
        elif kind == 1 and i:
            d[i - 1], d[i] = d[i], d[i - 1]
        elif kind == 2 and len(d) > 1:
            del d[i]
        else:
            d.insert(i, str(r.randrange(10)))
        if "".join(d) != right:
            return "".join(d)


here, r = Path(__file__).parent, random.Random(11)
rows = [json.loads(line) for line in open(here.parent / "demo/questions.jsonl")]
with open(here / "pairs.jsonl", "w") as out:
    for row in rows[:400]:
        right = row["completion"]
        pair = {"prompt": row["prompt"], "chosen": " " + right, "rejected": " " + wrong(right, r)}
        out.write(json.dumps(pair) + "\n")
