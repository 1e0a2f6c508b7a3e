#!/usr/bin/env python3
"""Fails when more than 1 % of the comments make a reader guess: they begin with a word that names nothing, hold a
clause without a noun ("what is to be", "those of"), or are only an owner ("Rank 0's."). CONTRIBUTING.md has the rule.

    .ci/prose.py [--list] [PATH ...]      --list shows each such comment
"""
import re, subprocess, sys
from pathlib import Path

MOST = 1.0  # percent
FOLDERS = ("app", "engine", "lora", "models", "data", "tests", "bench")
OPENS = re.compile(r"(What|Where|Whether|Which|How|Who|Whose|Whom|Of|That|Those|Such|Nothing|One|Its|It|They|Them|None|"
                   r"The same|The one|The others?|Besides|Else|Also of|As)\b(?!-)")
RIDDLE = re.compile(r"\b(of (which|whom|such|what)|(for|to|than) what|what (is|are|was|were|it|they|there|else|comes|came|one|"
                    r"has|have|a|an|the|of)|where (there is|there are|it has|it is|they have|they are)|as (it|they) (is|are|was|were)|"
                    r"(that|those) of|there (is|are) such|but for|in place of what|(is|are) to be|of (its|their) own)\b", re.I)
OWNER = re.compile(r"([A-Z][\w,()-]*\s?){1,5}'s?\.?")


def comments(path):
    """(line, text) of each run of // lines, and of each comment after code."""
    run, first = [], 0
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        bare = line.strip()
        if bare.startswith("//"):
            first = first if run else number
            run.append(bare.lstrip("/").strip())
            continue
        if run:
            yield first, " ".join(run)
            run = []
        if after := re.search(r"(?<!:)//\s*(.+)$", re.sub(r'"(\\.|[^"\\])*"', '""', line)):
            yield number, after[1]


def guessed(text):
    return OPENS.match(text) or RIDDLE.search(text) or OWNER.fullmatch(text.split(". ")[0])


def main():
    paths = [a for a in sys.argv[1:] if a != "--list"] or FOLDERS
    files = subprocess.run(["git", "ls-files", "--", *paths], capture_output=True, text=True).stdout.split()
    all_of_them = [(f, n, t) for f in files if f.endswith((".h", ".cpp", ".cu", ".cuh")) for n, t in comments(Path(f))
                   if re.search(r"[A-Za-z]{3}", t) and not t.startswith("namespace")]
    found = [(f, n, t) for f, n, t in all_of_them if guessed(t)]
    share = 100 * len(found) / max(1, len(all_of_them))
    if "--list" in sys.argv or share > MOST:
        for file, number, text in found:
            print(f"{file}:{number}: {text[:120]}")
    print(f"check    {len(found)} of {len(all_of_them)} comments make a reader guess: {share:.1f} %, at most {MOST} %")
    sys.exit(share > MOST)


main()
