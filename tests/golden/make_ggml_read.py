#!/usr/bin/env python3
"""ggml_read.json: blocks of the GGUF types that ft only reads, and their values by the gguf package.

    make_ggml_read.py              (a Python with numpy and gguf)

The codes are random; the numbers that they are multiples of are as in files.
"""
import json
from pathlib import Path

import gguf
import numpy as np

HALVES = {"Q2_K": (80, 82), "Q3_K": (108,), "IQ4_XS": (0,)}  # where in a block f16 numbers are
BLOCKS = 4


def main():
    draw = np.random.default_rng(11)
    golden = {}
    for name, places in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        blocks = draw.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        for at in places:
            numbers = (0.01 * (0.5 + draw.random(BLOCKS))).astype(np.float16)
            blocks[:, at:at + 2] = numbers.view(np.uint8).reshape(BLOCKS, 2)
        values = gguf.quants.dequantize(blocks, kind).astype(np.float32)
        golden[name] = {"blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}
    Path(__file__).with_name("ggml_read.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
