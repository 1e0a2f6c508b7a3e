#!/usr/bin/env python3
"""Keeps the source readable: fails on files over 500 lines, functions over 80, lines over 110 columns, files
without a banner comment. Prints the median and the largest file."""
import re, statistics, subprocess, sys
from pathlib import Path

FILE, FUNCTION, COLUMNS, SOFT = 500, 80, 110, 300
NOT_FUNCTIONS = re.compile(r"\s*(namespace|class|struct|enum|union|if|for|while|switch|else|do|try|case|default)\b")


def long_functions(lines):
    """(line number, length) of functions that are too long. Relies on the format: the line that opens a body ends
    in "{", and its closing brace stands at the indentation where its head began."""
    for start, line in enumerate(lines):
        if not line.rstrip().endswith("{") or NOT_FUNCTIONS.match(line):
            continue
        head = start
        while head > 0 and "(" not in lines[head] and lines[head - 1].strip()[-1:] not in ("", ";", "{", "}", ":"):
            head -= 1
        indent = re.match(r" *", lines[head])[0]
        if len(indent) > 2 or "(" not in "".join(lines[head:start + 1]):
            continue
        end = next((i for i in range(start + 1, len(lines)) if lines[i].startswith(indent + "}")), None)
        if end is not None and end - head + 1 > FUNCTION:
            yield head + 1, end - head + 1


def main():
    files = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"], capture_output=True, text=True).stdout.split()
    faults, sizes = [], {}
    for name in files:
        lines = Path(name).read_text().splitlines()
        sizes[name] = len(lines)
        if len(lines) > FILE:
            faults.append(f"{name}: {len(lines)} lines, at most {FILE}")
        # A test's name says enough; what a header is for holds for its .cpp.
        described = name.startswith("tests/") or (name.endswith(".cpp") and Path(name).with_suffix(".h").exists())
        if not described and not any(line.startswith("//") for line in lines[:1]):
            faults.append(f"{name}: no comment at its top says what it is")
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS:
                faults.append(f"{name}:{number}: {len(line)} columns, at most {COLUMNS}")
        for number, length in long_functions(lines):
            faults.append(f"{name}:{number}: a function of {length} lines, at most {FUNCTION}")
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(1)
    big = max(sizes, key=sizes.get)
    over = sum(size > SOFT for size in sizes.values())
    print(f"check    sizes: {len(files)} files, {sum(sizes.values()):,} lines, median {statistics.median(sizes.values()):.0f}, "
          f"{over} over {SOFT}, largest {big} with {sizes[big]}")


main()
