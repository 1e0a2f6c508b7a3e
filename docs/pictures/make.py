#!/usr/bin/env python3
"""Makes the README's pictures from a real run of the demo: run.svg, the terminal while it trains and when it is done,
and loss.svg, the plot that ft itself writes.

    docs/pictures/make.py build/release/ft            # about a minute on an idle machine
    docs/pictures/make.py build/release/ft --again    # draw the last recording once more
    docs/pictures/make.py build/release/ft --check    # write nothing; fail if the terminal shows other lines than run.svg
"""
import argparse, difflib, re, shutil, sys
from html import escape, unescape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ci"))
sys.dont_write_bytecode = True
import terminal  # noqa: E402
from compare import outline  # noqa: E402
from terminal import screen  # noqa: E402
HERE, RECORDING = ROOT / "docs/pictures", ROOT / "build/demo.terminal"
COLUMNS, CELL, LINE, PAD, BAR = 116, 7.23, 18, 20, 34  # columns; then pixels
LIVE = re.compile(rb"\r *7\d\d/1,200 [^\r]*loss[^\r]*\x1b\[K")  # the moment of the first window

STYLE = """
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1f2328;white-space:pre}
.win{fill:#f6f8fa;stroke:#d0d7de}.title{fill:#656d76}.b{font-weight:700}.cmd{fill:#0550ae;font-weight:700}
.dot{fill:#d0d7de}
@media (prefers-color-scheme:dark){text{fill:#d7dde4}.win{fill:#0f1318;stroke:#30363d}.title{fill:#8b949e}
.cmd{fill:#79c0ff}.dot{fill:#30363d}}"""


def spans(line):
    """Bold stretches of a line as tspans."""
    out, bold = [], False
    for part in re.split(r"(\x1b\[\d*m)", line):
        if part.startswith("\x1b"):
            bold = part == "\x1b[1m"
        elif part:
            out.append(f'<tspan class="b">{escape(part)}</tspan>' if bold else escape(part))
    return "".join(out)


def window(y, title, lines):
    """One terminal window; returns it and its height."""
    width, height = COLUMNS * CELL + 2 * PAD, BAR + len(lines) * LINE + PAD
    out = [f'<rect class="win" x=".5" y="{y + .5}" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>']
    out += [f'<circle class="dot" cx="{PAD + 16 * i}" cy="{y + 18}" r="5"/>' for i in range(3)]
    out += [f'<text class="title" x="{width / 2:.0f}" y="{y + 22}" text-anchor="middle">{escape(title)}</text>']
    for i, line in enumerate(lines):
        kind = ' class="cmd"' if line.startswith("$ ") else ""
        if line:
            out.append(f'<text{kind} x="{PAD}" y="{y + BAR + LINE * (i + 1) - 4}" xml:space="preserve">{spans(line)}</text>')
    return out, height


def shown_in(picture):
    """The lines of a picture's terminals, without their numbers."""
    return [outline(unescape(re.sub("<[^>]*>", "", line))) for line in picture.split("\n") if line.startswith("<text")]


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("ft")
    options.add_argument("--again", action="store_true")
    options.add_argument("--check", action="store_true")
    options = options.parse_args()
    if not options.again:
        output, code = terminal.run([str(ROOT / "configs/demo/run"), options.ft], COLUMNS)
        if code != 0:
            sys.exit(output.decode())
        RECORDING.parent.mkdir(exist_ok=True)
        RECORDING.write_bytes(output)
    output = RECORDING.read_bytes()

    training = screen(output[:LIVE.search(output).end()])
    training = training[next(i for i, line in enumerate(training) if line.startswith("Training")):]
    whole = screen(output)
    done = whole[next(i for i, line in enumerate(whole) if "done" in line):]
    while not done[-1]:
        done.pop()

    first, height = window(0, "while it trains", ["$ make demo", "..."] + training)
    second, more = window(height + 16, "when it is done", done)
    size = f"{COLUMNS * CELL + 2 * PAD:.0f} {height + 16 + more}"
    picture = "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img">',
         "<title>make demo in a terminal</title>", f"<style>{STYLE}\n</style>"] + first + second + ["</svg>", ""])
    if options.check:
        was, now = shown_in((HERE / "run.svg").read_text()), shown_in(picture)
        for line in difflib.unified_diff(was, now, "docs/pictures/run.svg", "now", lineterm="", n=1):
            print(line)
        sys.exit(was != now)
    (HERE / "run.svg").write_text(picture)
    shutil.copy(ROOT / "outputs/demo/loss.svg", HERE / "loss.svg")


main()
