#!/usr/bin/env python3
"""ggml_blocks.json: the bytes of GGUF's block types as llama.cpp quantizes, without an importance matrix.

    make_ggml.py LIBRARY

LIBRARY has ggml-quants.c: libggml-base.so of the wheel of llama-cpp-python, or what
gcc -O2 -shared -fPIC -Iinclude -Isrc src/ggml-quants.c src/ggml.c src/ggml-alloc.c makes in llama.cpp's ggml folder.
Needs numpy.
"""
import ctypes
import json
import sys
from pathlib import Path

import numpy as np

TYPES = {"Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34),
         "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "IQ4_NL": (20, 32, 18)}
ROW = 256


def rows():
    """Eight rows of 256: as weights are, and the corners."""
    draw = np.random.default_rng(7)
    x = draw.standard_normal((8, ROW)).astype(np.float32) * np.float32(0.02)
    x[1] *= draw.choice([1, 8, 0.01], ROW).astype(np.float32)  # outliers, and small values among large ones
    x[2] = np.abs(x[2]) + np.float32(1)  # far from zero
    x[3] = -np.abs(x[3])
    x[4, 32:96] = 0
    x[5] = np.float32(0.5)
    x[6] *= np.float32(1e-17)
    x[7] = np.linspace(-3, 3, ROW, dtype=np.float32)
    return x


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    x = rows()
    golden = {"x": x.tobytes().hex(), "types": {}}
    for name, (number, block, size) in TYPES.items():
        y = np.zeros(x.size // block * size, np.uint8)
        assert library.ggml_quantize_chunk(number, x.ctypes.data, y.ctypes.data, 0, len(x), ROW, None) == len(y)
        golden["types"][name] = y.tobytes().hex()
    Path(__file__).with_name("ggml_blocks.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
