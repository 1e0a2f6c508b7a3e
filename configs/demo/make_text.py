#!/usr/bin/env python3
"""Makes the demo's text: sentences for the base model, questions and answers for its adapter.

    make_text.py            writes base.jsonl (text), questions.jsonl and held_out.jsonl (prompt, completion)

The base model reads little reports with numbers in digits, in words, and now and then in digits and then in words.
The other way round it never sees: turning words into digits, when asked to, is the task of the demo.
"""
import json, random
from pathlib import Path

ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()


def words(n):
    if n >= 1000:
        return ONES[n // 1000] + " thousand" + (" " + words(n % 1000) if n % 1000 else "")
    if n >= 100:
        return ONES[n // 100] + " hundred" + (" " + words(n % 100) if n % 100 else "")
    if n >= 20:
        return TENS[n // 10] + (" " + ONES[n % 10] if n % 10 else "")
    return ONES[n]


NAMES = "Anna Ben Clara David Emma Felix Greta Henry Ida Jonas Karla Leo Mira Nils Olga Paul".split()
THINGS = "apples bricks candles doors eggs feathers grapes hats jars keys lamps maps nails oranges pears ropes".split()
PLACES = "the harbour|the market|the old mill|the station|the school|the bakery|the library|the farm".split("|")
VERBS = "counted|sold|carried|found|ordered|packed|painted|lost|brought|saw".split("|")


def number(r):
    return r.choice([r.randrange(100), r.randrange(1000)])


def sentence(r):
    name, thing, place, verb = r.choice(NAMES), r.choice(THINGS), r.choice(PLACES), r.choice(VERBS)
    n = number(r)
    return r.choice([
        f"{name} {verb} {words(n)} {thing} at {place}.",
        f"At {place} {name} {verb} {words(n)} {thing}.",
        f"There were {words(n)} {thing} at {place} when {name} came.",
        f"{name} lives in house {n} near {place}.",
        f"Box {n} at {place} holds {thing}, said {name}.",
        f"The number of {place} is {n}, {words(n)}.",
        f"{name} wrote {n}, {words(n)}.",
        f"{name} and {r.choice(NAMES)} {verb} {thing} at {place}.",
    ])


def write(name, rows):
    Path(__file__).with_name(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def main():
    r = random.Random(7)
    write("base.jsonl", [{"text": " ".join(sentence(r) for _ in range(8))} for _ in range(6000)])
    numbers = list(range(1000))
    r.shuffle(numbers)
    pairs = [{"prompt": f"In digits: {words(n)} =", "completion": str(n)} for n in numbers]
    write("held_out.jsonl", pairs[:200])
    write("questions.jsonl", pairs[200:])


main()
