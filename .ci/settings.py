#!/usr/bin/env python3
"""Fails for a setting that nothing reads: one that would be accepted and ignored.

Settings are the members that a struct in a config.h lists in fields(). A read is an expression such as
config.training.seed, t.seed or config_.seed, outside the config headers or in another method of the struct, where the
name before the member is declared with the struct's type: in the file itself, in a header that it includes (or such a
header does), or as a section. Settings that are refused unless they have their default (only_default, always) need no reader."""
import re, subprocess, sys
from pathlib import Path

NO_READER = {
    "RunConfig.schema": "for editors",
    "SweepConfig.grid": "read in the file's own order, with its lines",
    "SweepConfig.bundles": "read in the file's own order, with its lines",
    "TuneConfig.space": "read in the file's own order, with its lines",
    "TrainingConfig.full_determinism": "always so: true asks for nothing that false does not have",
}


def without_comments(text):
    return re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', lambda m: '""' if m[0][0] == '"' else "", text)


def settings_of(headers):
    """{struct: {member: whether it needs a reader}}, {struct: its text without fields()}"""
    members, rest = {}, {}
    structs = re.findall(r"^struct (\w+) \{", "\n".join(headers), re.M)
    parts = set().union(*(declared("\n".join(headers), s) for s in structs))  # sections: their members are read
    for text in headers:
        for struct, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.M | re.S):
            fields = re.compile(r"^  void \w*fields\(auto& f\) \{\n(.*?)^  \}", re.M | re.S)
            rest[struct] = without_comments(fields.sub("", body))
            rows = re.findall(r'\bf\("[^"]+", (\w+),(.*?)\);\n', "".join(fields.findall(body)), re.S)
            free = lambda name, rules: re.search(r"only_default\(\)|always\(", rules) or name in parts
            members[struct] = {name: not free(name, rules) for name, rules in rows}
    return members, rest


def declared(text, struct):
    """Names of variables, members and functions of this type in a text."""
    kind = rf"\b{struct}\b>?\s*(?:const\s*)?[&*]?\s*"
    lists = re.findall(kind + r"(\w+(?:, \w+)*)", text)  # a, b; of "a, const B& b" the first
    return {name for names in lists for name in names.split(", ") if name != "const"}


def main():
    names = subprocess.run(["git", "ls-files", "app", "engine", "lora", "models", "data"], capture_output=True, text=True)
    sources = {f: without_comments(Path(f).read_text()) for f in names.stdout.split() if f.endswith((".h", ".cpp"))}
    includes = {f: re.findall(r'#include "([^"]+)"', Path(f).read_text()) for f in sources}
    lists = lambda f: "void fields(auto& f)" in sources.get(f, "")
    configs = [f for f in sources if f.endswith("/config.h") and lists(f)]
    # Parts of a struct of settings, each in a header beside its config.h: a read of the struct's member is one of theirs.
    whole = {}
    for config in configs:
        for part in includes[config]:
            if lists(part) and part not in configs and Path(part).parent == Path(config).parent:
                joined = re.findall(r"^struct (\w+) : ", sources[config], re.M)
                whole |= {struct: joined for struct in re.findall(r"^struct (\w+) \{", sources[part], re.M)}
                configs.append(part)
    members, rest = settings_of([Path(f).read_text() for f in configs])
    of_struct = lambda text, s: set().union(*(declared(text, name) for name in [s, *whole.get(s, [])]))
    sections = {s: set().union(*(of_struct(text, s) for text in rest.values())) for s in members}
    types = {f: {s: of_struct(text, s) for s in members} for f, text in sources.items()}
    read = set()
    for file, text in sources.items():
        if file in configs:
            continue
        near = {file}.union(h for i in [file, *includes[file]] for h in includes.get(i, []))
        near = [h for h in near if h in sources and h not in configs]
        for struct, fields in members.items():
            of_type = sections[struct].union(*(types[h][struct] for h in near))
            of_type |= set(re.findall(rf"auto&? (\w+) (?:=|:) [^;]*?\b(?:{'|'.join(sections[struct]) or 'none'})(?:;|\))", text))
            found = re.findall(rf"\b(\w+)(?:\(\)|\[\w+\])?(?:\.|->)({'|'.join(fields)})\b(?!\s*(?:=[^=]|\())", text)
            read |= {f"{struct}.{name}" for of, name in found if of in of_type}
    for struct, fields in members.items():
        read |= {f"{struct}.{name}" for name in fields if len(re.findall(rf"\b{name}\b", rest[struct])) > 1}
    needed = {f"{struct}.{name}" for struct, fields in members.items() for name, needs in fields.items() if needs}
    faults = [f"{s}: nothing reads this setting; give it an effect, or refuse it by name" for s in sorted(needed - read - set(NO_READER))]
    faults += [f"{s}: in NO_READER of .ci/settings.py, and it is " + ("read" if s in read else "no setting") for s in NO_READER
               if s in read or s not in needed]
    for fault in faults:
        print(fault)
    if faults or len(needed) < 100:
        sys.exit(f"check    settings: {len(needed)} found" if not faults else 1)
    print(f"check    settings: each of {len(needed)} has a reader, but {len(NO_READER)} that say why not")


main()
