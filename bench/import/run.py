#!/usr/bin/env python3
"""Tries `ft import` on another program's own examples, and prints one line a file and a row of a table.

    bench/import/run.py FT PROGRAM FOLDER [--details FILE]

PROGRAM is a name for the table. In FOLDER, which is a copy of the program's repository, every YAML file of --pattern
is imported as a file; of shell scripts the commands that they start, and of Python files the commands in their
docstrings. Each ends as one of
    whole     every key is converted, or changes nothing
    missing   a run.json, and the keys that ft does not have
    refused   no run.json: the run is one that ft does not do, with the reason
    failed    anything else: a crash, or an error without a reason
"""
import argparse, json, re, shlex, subprocess, sys
from collections import Counter
from pathlib import Path

# Scripts of other programs are read, never run: some of them end every Python process of the machine.
def commands_of_script(path):
    """The commands of a shell script that start with deepspeed, with its variables, and argN for its arguments."""
    text, values = re.sub(r"\\\n", " ", path.read_text()), {str(n): f"arg{n}" for n in range(1, 10)}
    step = next((part for part in path.parts if part.startswith("step")), "")

    def filled(line):
        return re.sub(r"\$\{?(\w+)\}?", lambda found: values.get(found[1], ""), line)

    for line in text.splitlines():
        if assigned := re.match(r"\s*([A-Za-z_]\w*)=(\"[^\"]*\"|'[^']*'|[^\s#]*)", line):
            values[assigned[1]] = filled(assigned[2].strip("\"'")) or assigned[1].lower()  # empty: the user fills it in
        elif re.match(r"\s*deepspeed ", line):
            words = shlex.split(filled(re.split(r"&?>|&\s*$", line)[0]))
            yield [f"{step}/main.py" if word == "main.py" else word for word in words]


def commands_of_python(path):
    """Commands in the text of a Python file: "python FILE.py \\" or "trl sft \\" and the lines that continue it."""
    text = path.read_text()
    for found in re.finditer(r"^(?:# *)?((?:python|accelerate launch|trl)\b(?:.*\\\n)*.*)$", text, re.M):
        line = re.sub(r"\\\n(# *)?", " ", found[1])
        if "--model_name_or_path" in line:
            yield shlex.split(line)


def outcome(ft, arguments, cwd):
    result = subprocess.run([ft, "import", "--json", *arguments], cwd=cwd, capture_output=True, text=True, timeout=60)
    if result.returncode == 0:
        answer = json.loads(result.stdout)
        missing = [(key["key"], key["why"]) for key in answer["keys"] if key["verdict"] == "not_there"]
        return ("missing" if missing else "whole"), missing
    if result.returncode == 2 and result.stderr.strip():
        return "refused", [(result.stderr.strip().split("\n")[0], "")]
    return "failed", [(f"exit {result.returncode}", result.stderr[-300:])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ft")
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pattern", default="**/*.y*ml")
    parser.add_argument("--from", dest="origin", default="")
    parser.add_argument("--skip", default="", help="regular expression for names of files that are no runs")
    parser.add_argument("--details", type=argparse.FileType("a"))
    a = parser.parse_args()
    ft, counts, keys, reasons = str(Path(a.ft).resolve()), Counter(), Counter(), Counter()
    for path in sorted(a.folder.glob(a.pattern)):
        name = str(path.relative_to(a.folder))
        if a.skip and re.search(a.skip, name):
            continue
        origin = ["--from", a.origin] if a.origin else []
        if path.suffix in (".yaml", ".yml"):
            runs = [[*origin, name]]
        else:
            commands = commands_of_script(path) if path.suffix == ".sh" else commands_of_python(path)
            runs = [[*origin, "--", *words] for words in commands]
        for arguments in runs:
            kind, why = outcome(ft, arguments, a.folder)
            counts[kind] += 1
            (reasons if kind in ("refused", "failed") else keys).update(key for key, _ in why)
            if a.details:
                print(f"{kind:8} {a.program} {name}", *(f"\n         {key}: {text}" for key, text in why), sep="",
                      file=a.details)
    print("| {} | {} | {} | {} | {} | {} |".format(a.program, sum(counts.values()), *(counts[kind] for kind in (
        "whole", "missing", "refused", "failed"))))
    for title, table in (("missing", keys), ("refused", reasons)):
        for text, count in table.most_common(15):
            print(f"    {count:4} {title} {text[:150]}", file=sys.stderr)
    sys.exit(counts["failed"] > 0)


main()
