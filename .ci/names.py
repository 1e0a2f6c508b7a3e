#!/usr/bin/env python3
"""Fails when two files define a class of the same name in the same namespace. The compiler sees one file at a time and
the linker keeps one of the destructors for both, so that one class would be destroyed as the other. Each test is a
program of its own and may name its classes as it likes."""
import re, subprocess, sys
from collections import defaultdict
from pathlib import Path

NAMESPACE = re.compile(r"namespace(?: ([\w:]+))? \{")
CLASS = re.compile(r"(?:template <.*> )?(?:class|struct|union|enum class) (\w+)(?: final)?(?: : .*)? \{")


def classes(text):
    """Names of classes at namespace scope, but for those in a namespace without a name."""
    inside = []
    for line in text.splitlines():
        if opened := NAMESPACE.match(line):
            inside.append(opened[1])
        elif line.startswith("}  // namespace"):
            inside.pop()
        elif (found := CLASS.match(line)) and None not in inside:
            yield "::".join([*inside, found[1]])


def main():
    names = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"], capture_output=True, text=True).stdout.split()
    where = defaultdict(set)
    for file in names:
        if not file.startswith(("tests/", "bench/")):
            for name in classes(Path(file).read_text()):
                where[name].add(file)
    twice = {name: sorted(files) for name, files in where.items() if len(files) > 1}
    for name, files in twice.items():
        print(f"{name} is defined in {' and '.join(files)}; rename one")
    if twice:
        sys.exit(1)
    print(f"check    names of {len(where)} classes")


main()
