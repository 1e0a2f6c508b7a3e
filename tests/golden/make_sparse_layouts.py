#!/usr/bin/env python3
"""Makes sparse_layouts.json: layouts of DeepSpeed 0.19.6's SparsityConfig classes, the last release that has them.

    make_sparse_layouts.py SPARSITY_CONFIG     (a Python with torch; deepspeed/ops/sparse_attention/sparsity_config.py of
                                                the package `deepspeed==0.19.6`, which alone needs nothing else of it)

Each case: the settings, query heads, blocks of the sequence, and for each head its rows as hexadecimal numbers, bit c for
column c. Random blocks are Python's own choice and left out."""
import importlib.util
import json
import random
import sys
from pathlib import Path

MODES = {"fixed": "FixedSparsityConfig", "variable": "VariableSparsityConfig", "bigbird": "BigBirdSparsityConfig",
         "bslongformer": "BSLongformerSparsityConfig", "local": "LocalSlidingWindowSparsityConfig"}


def settings(mode, pick):
    """Settings that the mode takes, some of them at random."""
    s = {"attention": pick.choice(["unidirectional", "bidirectional"])}
    if mode == "fixed":
        s["num_global_blocks"] = pick.choice([1, 1, 2, 3])
        s["num_local_blocks"] = s["num_global_blocks"] * pick.choice([1, 2, 4])
        if pick.random() < 0.5:
            s["different_layout_per_head"] = True
            s["num_different_global_patterns"] = pick.randint(1, s["num_local_blocks"] // s["num_global_blocks"])
    if mode == "variable":
        s["local_window_blocks"] = [pick.randint(1, 5) for _ in range(pick.randint(1, 3))]
    if mode in ("fixed", "variable") and s["attention"] == "bidirectional":
        s["horizontal_global_attention"] = pick.random() < 0.5
    if mode in ("variable", "bslongformer"):
        s["global_block_indices"] = sorted(pick.sample(range(12), pick.randint(1, 3)))
        if pick.random() < 0.5:
            s["global_block_end_indices"] = [i + pick.randint(1, 4) for i in s["global_block_indices"]]
    if mode == "bigbird":
        s["num_global_blocks"] = pick.randint(1, 3)
    if mode in ("bigbird", "bslongformer", "local"):
        s["num_sliding_window_blocks"] = pick.randint(1, 7)
    return s


def main(file):
    spec = importlib.util.spec_from_file_location("sparsity_config", file)
    deepspeed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(deepspeed)
    pick, cases = random.Random(1), []
    for mode, name in MODES.items():
        for _ in range(40):
            s, heads, blocks = settings(mode, pick), pick.randint(1, 4), pick.choice([7, 8, 9, 13, 21, 33])
            random_too = {"num_random_blocks": 0} if mode in ("variable", "bigbird") else {}
            layout = getattr(deepspeed, name)(num_heads=heads, block=16, **random_too, **s).make_layout(16 * blocks)
            rows = [[f"{sum(int(v) << c for c, v in enumerate(row)):x}" for row in head] for head in layout.tolist()]
            cases.append({"mode": mode, **s, "heads": heads, "blocks": blocks, "layout": [" ".join(r) for r in rows]})
    lines = ",\n".join(json.dumps(c) for c in cases)
    Path(__file__).with_name("sparse_layouts.json").write_text(f'{{"made_with": {{"deepspeed": "0.19.6"}}, "cases": [\n{lines}\n]}}\n')


main(sys.argv[1])
