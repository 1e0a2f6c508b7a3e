#!/usr/bin/env python3
"""Draws the mean reward of a run's answers, step by step: plot.py log.jsonl reward.svg"""
import json, sys

W, H, LEFT, RIGHT, TOP, BOTTOM = 720, 300, 52, 16, 34, 40
STYLE = """
text{font:12px system-ui,sans-serif;fill:#1f2328}.grid{stroke:#d0d7de;stroke-width:1}
.line{fill:none;stroke:#0969da;stroke-width:2}.bg{fill:#fff}
@media (prefers-color-scheme:dark){text{fill:#d7dde4}.grid{stroke:#30363d}.line{stroke:#58a6ff}.bg{fill:#0f1318}}"""


def main(log, out):
    rows = [json.loads(line) for line in open(log)]
    points = [(r["step"], r["reward"]) for r in rows if "reward" in r]
    last = points[-1][0]
    x = lambda step: LEFT + (W - LEFT - RIGHT) * step / last
    y = lambda reward: TOP + (H - TOP - BOTTOM) * (1 - reward)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}"><style>{STYLE}</style>',
             f'<rect class="bg" width="{W}" height="{H}"/>',
             f'<text x="{LEFT}" y="20">GRPO: share of sampled answers that are right (temperature 0.7)</text>']
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<path class="grid" d="M{LEFT} {y(tick):.1f}H{W - RIGHT}"/>'
                     f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.0%}</text>')
    for step in range(0, last + 1, max(1, last // 8)):
        parts.append(f'<text x="{x(step):.1f}" y="{H - 16}" text-anchor="middle">{step}</text>')
    path = " ".join(f"{x(s):.1f},{y(r):.1f}" for s, r in points)
    parts.append(f'<polyline class="line" points="{path}"/></svg>')
    open(out, "w").write("\n".join(parts) + "\n")


main(*sys.argv[1:])
