#!/usr/bin/env python3
"""ggml_read.json: blocks of the GGUF types that ft only reads, and their values by the gguf package.

    make_ggml_read.py              (a Python with numpy and gguf)

The codes are random; the numbers that they are multiples of are as in files. "sha256" is that of the values of MANY
blocks, whose bytes noise() makes, so that every point of every grid is seen.
"""
import hashlib
import json
from pathlib import Path

import gguf
import numpy as np

# Where in a block f16 numbers are; at IQ1_M's places, the high halves of bytes.
HALVES = {"Q2_K": (80, 82), "Q3_K": (108,), "IQ4_XS": (0,), "IQ2_XXS": (0,), "IQ2_XS": (0,), "IQ2_S": (0,), "IQ3_XXS": (0,), "IQ3_S": (0,),
          "IQ1_S": (0,), "IQ1_M": (), "TQ1_0": (52,), "TQ2_0": (64,), "MXFP4": ()}
SPLIT = (49, 51, 53, 55)
BLOCKS, MANY = 4, 1024


def put_number(blocks, at, numbers):
    blocks[:, at:at + 2] = numbers.astype(np.float16).view(np.uint8).reshape(len(blocks), 2)


def put_split(blocks, numbers):
    bits = numbers.astype(np.float16).view(np.uint16)
    for i, at in enumerate(SPLIT):
        blocks[:, at] = blocks[:, at] & 15 | (bits >> 4 * i & 15).astype(np.uint8) << 4


def values_of(blocks, kind):
    with np.errstate(over="ignore"):
        return gguf.quants.dequantize(blocks, kind).astype(np.float32)


def noise(size):
    """Bytes of MANY blocks; f16 numbers are made between 2^-7 and 2^-6 by their highest six bits."""
    i = np.arange(MANY * size, dtype=np.uint32)
    with np.errstate(over="ignore"):
        h = (i + np.uint32(1)) * np.uint32(2654435761)
        h ^= h >> np.uint32(15)
        h *= np.uint32(2246822507)
        h ^= h >> np.uint32(13)
    return (h >> np.uint32(24)).astype(np.uint8).reshape(MANY, size)


def many(name, size, places):
    blocks = noise(size)
    for at in places:
        blocks[:, at + 1] = blocks[:, at + 1] & 3 | 0x20
    if name == "IQ1_M":
        blocks[:, SPLIT[-1]] = blocks[:, SPLIT[-1]] & 15 | 0x20
    return blocks


def main():
    draw = np.random.default_rng(11)
    golden = {}
    for name, places in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        size = gguf.GGML_QUANT_SIZES[kind][1]
        blocks = draw.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        for at in places or (0,):
            numbers = 0.01 * (0.5 + draw.random(BLOCKS))
            if places:
                put_number(blocks, at, numbers)
            elif name == "IQ1_M":
                put_split(blocks, numbers)
        golden[name] = {"blocks": blocks.tobytes().hex(), "values": values_of(blocks, kind).tobytes().hex(),
                        "sha256": hashlib.sha256(values_of(many(name, size, places), kind).tobytes()).hexdigest()}
    Path(__file__).with_name("ggml_read.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
