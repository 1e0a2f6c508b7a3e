#!/usr/bin/env python3
"""Keeps the source readable: fails on files over 500 lines, functions over 80, lines over 110 columns, files
without a banner comment, reads of the environment outside its file, and pages of documentation over 400 lines or with
lines over 120 columns. Of conditional compilation and of functions with more than 7 parameters there is as much as
there was; when it gets less, lower the number here. Prints the median and the largest file."""
import re, statistics, subprocess, sys
from pathlib import Path

FILE, FUNCTION, COLUMNS, SOFT = 500, 80, 110, 300
PAGE, PAGE_COLUMNS = 400, 120
REFERENCE = ("docs/config.md", "docs/import.md", "CHANGELOG.md")  # may be longer: a line for each setting, key or change
PARAMETERS, MANY_PARAMETERS = 7, 23  # functions that may have more
CONDITIONALS = 10                    # #if and the like: what only one of several compilers can read
ENVIRONMENT = "engine/core/environment.cpp"
NOT_FUNCTIONS = re.compile(r"\s*(namespace|class|struct|enum|union|if|for|while|switch|else|do|try|case|default)\b")
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])'")
BODY = re.compile(r"(\s*(const|noexcept|override|final|mutable|->[^{;(]+))*\s*\{|\s*:\s+\w+[({]")


def tracked(*patterns):
    return subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True).stdout.split()


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


def parameters(code):
    """(line number, name, number of parameters) of each function with a body. `code` is without comments and texts."""
    opened = []  # [position of a bracket, commas in it]
    for at, c in enumerate(code):
        if c in "([{":
            opened.append([at, 0])
        elif c == "," and opened:
            inside = re.sub(r"->|<<|[<>]=|\([^()]*\)", "", code[opened[-1][0]:at])
            opened[-1][1] += inside.count("<") <= inside.count(">")  # not those of template arguments
        elif c in ")]}" and opened:
            start, commas = opened.pop()
            name = re.search(r"(\w*)\s*$", code[max(0, start - 60):start])[1]
            if c == ")" and BODY.match(code, at + 1) and name not in ("if", "for", "while", "switch", "catch"):
                yield code.count("\n", 0, start) + 1, name, commas + bool(code[start + 1:at].strip())


def page_faults(name, lines):
    if len(lines) > PAGE and name not in REFERENCE:
        yield f"{name}: {len(lines)} lines, at most {PAGE}"
    code = False
    for number, line in enumerate(lines, 1):
        code ^= line.startswith("```")
        if len(line) > PAGE_COLUMNS and not code and not line.startswith(("|", "    ")) and "](" not in line:
            yield f"{name}:{number}: {len(line)} columns, at most {PAGE_COLUMNS}"


def main():
    files, pages = tracked("*.h", "*.cpp", "*.cu", "*.cuh"), tracked("*.md")
    faults, sizes, conditionals, many = [], {}, [], []
    for name in files:
        text = Path(name).read_text()
        lines = text.splitlines()
        code = COMMENT_OR_TEXT.sub('""', text)
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
            if re.match(r"\s*#\s*(if|elif)", line):
                conditionals.append(f"{name}:{number}")
        for number, length in long_functions(lines):
            faults.append(f"{name}:{number}: a function of {length} lines, at most {FUNCTION}")
        if not name.startswith("tests/"):
            many += [f"{name}:{line} {function}" for line, function, n in parameters(code) if n > PARAMETERS]
            if name != ENVIRONMENT and re.search(r"\b(getenv|setenv|environ)\b", code):
                faults.append(f"{name}: the environment is read and changed only in {ENVIRONMENT}")
    for name in pages:
        faults += page_faults(name, Path(name).read_text().splitlines())
    for what, places, most in (("#if", conditionals, CONDITIONALS),
                               (f"functions of more than {PARAMETERS} parameters", many, MANY_PARAMETERS)):
        if len(places) > most:
            faults.append(f"{len(places)} {what}, at most {most}: {', '.join(places)}")
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(1)
    big = max(sizes, key=sizes.get)
    over = sum(size > SOFT for size in sizes.values())
    print(f"check    sizes: {len(files)} files, {sum(sizes.values()):,} lines, median {statistics.median(sizes.values()):.0f}, "
          f"{over} over {SOFT}, largest {big} with {sizes[big]}; {len(conditionals)} #if, "
          f"{len(many)} functions of more than {PARAMETERS} parameters; {len(pages)} pages")


main()
