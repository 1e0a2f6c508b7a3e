"""Compares what a program shows with what a page has of it."""
import re

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?")
VARIES = [(re.compile(pattern), word) for pattern, word in (
    (r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?", "DATE"), (r"\b[0-9a-f]{8,}\b", "HASH"), (r"\bprocess \d+", "PROCESS"),
    (r"\b\d+h\d\dm\b|\b\d+m\d\ds\b|\b\d+(\.\d+)? (s|ms)\b", "TIME"), (r"\b[\d.,]+k? (tok|samples|steps)/s", "SPEED"),
    (r"\bof [\d.,]+ GiB", "FREE"), (r"longest sample that fits: [\d,]+", "FITS"), (r"^longest( +[\d,]+)+ ", "FITS "), (r"\bpeak [\d.,]+ [MG]iB", "PEAK"), (r"\b\d+ % of peak", "SHARE"), (r"[━─]{4,}", "BAR"))]
TOLERANCE = 0.1


def steady(line):
    """A line without what differs from run to run."""
    for pattern, word in VARIES:
        line = pattern.sub(word, line)
    return line


def outline(line):
    """A line without its numbers and the spaces that align them."""
    return re.sub(r"[ ]+", " ", NUMBER.sub("#", steady(line))).strip()


def agrees(a, b):
    """Whether two lines say the same, but for rounding on another processor."""
    if outline(a) != outline(b):
        return False
    pairs = zip(NUMBER.findall(steady(a)), NUMBER.findall(steady(b)))
    value = lambda text: float(text.replace(",", ""))
    return all(x == y or ("." in x + y and abs(value(x) - value(y)) <= TOLERANCE * abs(value(x))) for x, y in pairs)


def fitted(pasted, shown):
    """The pasted lines as the program shows them now, with the same lines left out; None if it shows other lines."""
    parts, at = [[]], 0
    for line in pasted:
        parts.append([]) if line == "..." else parts[-1].append(line)
    found = []
    for number, part in enumerate(parts):
        first, last = number == 0, number == len(parts) - 1
        starts = range(at, len(shown) - len(part) + 1)
        if last:
            starts = starts[-1:]
        elif first:
            starts = starts[:1]
        if len(parts) == 1 and len(part) != len(shown):
            return None
        start = next((s for s in starts if all(outline(a) == outline(b) for a, b in zip(part, shown[s:]))), None)
        if start is None:
            return None
        found.append([a if agrees(a, b) else b for a, b in zip(part, shown[start:])])
        at = start + len(part)
    return [line for number, part in enumerate(found) for line in (["..."] if number else []) + part]
