#!/usr/bin/env python3
"""Fails when a file includes what the table of docs/architecture.md does not allow its folder, or when the table's
rows go in a circle.

A row is: | `folder` | folders of ours it may include | third-party headers |, each name in backticks; "everything"
allows all of ours. `file.cpp`: before names says that only this file may. Subfolders without a row of their own follow
their folder's.
"""
import graphlib, re, subprocess, sys
from pathlib import Path

POSIX = re.compile(r"^(sys/|netinet/|arpa/)|^(fcntl|unistd|sched|glob|netdb|time|signal|poll|dirent|pthread|dlfcn|ifaddrs|termios|net/if)\.h$")


def names(cell):
    """Names in backticks, as (file they are for or None, name)."""
    found, only = [], None
    for part in re.findall(r"`([^`]+)`(:?)", cell):
        if part[1]:
            only = part[0]
        else:
            found.append((only, part[0]))
    return found


def table(text):
    rows = {}
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 3 and re.fullmatch(r"`[a-z/]+`", cells[0]):
            ours = [(None, "")] if cells[1].startswith("everything") else names(cells[1])
            rows[cells[0].strip("`")] = (ours, names(cells[2]))
    return rows


def under(name, folder):
    return not folder or name == folder or name.startswith(folder + "/")


def row_of(name, rows):
    return max((r for r in rows if under(name, r)), key=len, default=None)


def within(name, allowed, file):
    return any(only in (None, file.name) and under(name, a) for only, a in allowed)


def circle(rows):
    """Rows that lead back to the first of them, or nothing. A single .cpp file leads nowhere, since nothing includes
    it; nor do rows that say "everything", which are programs."""
    inner = {r for r in rows if (None, "") not in rows[r][0]}
    allowed = {r: [a for only, a in rows[r][0] if not (only or "").endswith(".cpp")] for r in inner}
    below = {r: {b for b in inner - {r} for a in allowed[r] if under(b, a) or b == row_of(a, rows)} for r in inner}
    try:
        graphlib.TopologicalSorter(below).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]


def main():
    rows = table(Path("docs/architecture.md").read_text())
    if len(rows) < 10:
        sys.exit("docs/architecture.md: no table of includes")
    faults = 0
    files = subprocess.run(["git", "ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"], capture_output=True, text=True).stdout.split()
    for file in map(Path, files):
        row = row_of(str(file), rows)
        if row is None:
            print(f"{file}: its folder is not in the table of docs/architecture.md")
            faults += 1
            continue
        ours, foreign = rows[row]
        for number, line in enumerate(file.read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not include:
                continue
            quoted, name = include[1] == '"', include[2]
            if quoted:
                ok = Path(name).exists() and (row_of(name, rows) == row or within(name, ours, file))
            else:
                standard = "/" not in name and "." not in name
                ok = standard or POSIX.search(name) or within(name, foreign, file)
            if not ok:
                print(f"{file}:{number}: {row} may not include {name}")
                faults += 1
    if found := circle(rows):
        print("docs/architecture.md: rows go in a circle: " + " -> ".join(found))
        faults += 1
    if faults:
        sys.exit(1)
    print(f"check    include directions of {len(files)} files in {len(rows)} folders, no circle")


main()
