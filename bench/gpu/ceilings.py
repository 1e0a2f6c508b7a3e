#!/usr/bin/env python3
"""What a GPU sustains: the limits that shares of speed refer to. One JSON object a line; needs torch.

    ceilings.py [--all | --only fp8] [--device cuda]

Each computation is queued without pauses for one to three seconds, and timed by events in windows of a quarter of a second: `first` is
the burst of a cool card, `value` the rate of the last window, which lasts. Data are normal random numbers: with zeros a card at its power
limit is faster. Always: copies, products of LLaMA-2-7B's shapes, attention. With --all as well: distances of rows, ways to add an adapter,
products added up against one, gradients of weights in f32, products in FP8 with their errors, transposition.
"""
import argparse
import contextlib
import json
import sys
import time

import torch

BF16, F8 = torch.bfloat16, getattr(torch, "float8_e4m3fn", None)
ROWS, WIDTH, HIDDEN, VOCABULARY = 8192, 4096, 11008, 32000
WINDOW = 0.25                                        # seconds


def say(**row):
    print(json.dumps(row), flush=True)


@contextlib.contextmanager
def survived(name=""):
    """Of a computation that this card or torch does not have, the error is the row."""
    try:
        yield
    except Exception as e:
        say(name=name, error=f"{type(e).__name__}: {str(e)[:200]}")


class Bench:
    def __init__(self, device, small):
        self.device, self.small = device, small

    def random(self, rows, cols, apart=None):
        """apart: from row to row, in elements."""
        return torch.randn(rows, apart or cols, device=self.device, dtype=BF16)[:, :cols]

    def empty(self, rows, cols):
        return torch.empty(rows, cols, device=self.device, dtype=BF16)

    def shape(self, *sizes):
        return tuple(max(16, s // 32) for s in sizes) if self.small else sizes

    def windows(self, f, calls, count):
        """Seconds of a call in each of `count` windows of so many calls."""
        if self.device != "cuda":
            times = []
            for _ in range(count):
                begun = time.perf_counter()
                for _ in range(calls):
                    f()
                times.append((time.perf_counter() - begun) / calls)
            return times
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for mark in marks[1:]:
            for _ in range(calls):
                f()
            mark.record()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) * 1e-3 / calls for a, b in zip(marks, marks[1:])]

    def rate(self, name, f, amount, unit="TFLOP/s", seconds=1.5, **more):
        """amount: FLOPs, or bytes read and written, of a call."""
        scale = 1e12 if unit == "TFLOP/s" else 1e9
        self.windows(f, 1, 1)                        # plans are made, kernels are loaded
        one = min(self.windows(f, 3, 1))
        window = WINDOW if self.device == "cuda" else 0.01
        begun = time.time()
        times = self.windows(f, max(1, int(window / one)), max(2, int(seconds / WINDOW)))
        say(name=name, unit=unit, value=amount / times[-1] / scale, first=amount / times[0] / scale, us=1e6 * times[-1], begun=begun, ended=time.time(), **more)


def copies(b):
    n = 2**20 if b.small else 2**30
    x = torch.randint(0, 255, (n,), device=b.device, dtype=torch.uint8)
    y = torch.empty_like(x)
    b.rate("copy", lambda: y.copy_(x), 2 * n, "GB/s", 1.0)


def products(b):
    for sizes, seconds in (((ROWS, WIDTH, WIDTH), 3.0), ((ROWS, HIDDEN, WIDTH), 3.0), ((ROWS, WIDTH, HIDDEN), 3.0), ((2048, VOCABULARY, WIDTH), 1.0),
                           ((512, WIDTH, VOCABULARY), 1.0)):
        m, n, k = b.shape(*sizes)
        x, w, y = b.random(m, k), b.random(n, k), b.empty(m, n)
        b.rate("product " + "x".join(map(str, sizes)), lambda: torch.mm(x, w.t(), out=y), 2 * m * n * k, seconds=seconds)
    x, w = torch.zeros_like(x), torch.zeros_like(w)
    b.rate("product of zeros, 512x4096x32000", lambda: torch.mm(x, w.t(), out=y), 2 * m * n * k, seconds=1.0)


def attention(b):
    batch, heads, length, width = (1, 2, 64, 16) if b.small else (2, 32, 4096, 128)
    q, k, v = (torch.randn(batch, heads, length, width, device=b.device, dtype=BF16, requires_grad=True) for _ in range(3))
    pairs = batch * heads * length * length * width
    attend = torch.nn.functional.scaled_dot_product_attention
    y = attend(q, k, v, is_causal=True)
    gradient = torch.randn_like(y)
    with torch.no_grad():
        b.rate("attention", lambda: attend(q, k, v, is_causal=True), 2 * pairs, seconds=1.0)
    b.rate("attention: gradient", lambda: torch.autograd.grad(y, (q, k, v), gradient, retain_graph=True), 5 * pairs, seconds=1.0)


def distances(b):
    m, n, k = b.shape(ROWS, WIDTH, WIDTH)
    w, y = b.random(n, k), b.empty(m, n)
    for more in (0, 32, 64, 128):
        x = b.random(m, k, k + more)
        b.rate(f"rows of x {more} elements further apart", lambda x=x: torch.mm(x, w.t(), out=y), 2 * m * n * k, seconds=1.0)
    x = b.random(m, k)
    for more in (0, 32, 64):
        out = b.random(m, n, n + more)
        b.rate(f"rows of y {more} elements further apart", lambda out=out: torch.mm(x, w.t(), out=out), 2 * m * n * k, seconds=1.0)


def adapters(b):
    m, n, k = b.shape(ROWS, WIDTH, WIDTH)
    x, w, u, right, y = b.random(m, k), b.random(n, k), b.random(m, 16), b.random(n, 16), b.empty(m, n)

    def two_calls():
        torch.mm(u, right.t(), out=y)
        torch.addmm(y, x, w.t(), out=y)

    b.rate("adapter: two products", two_calls, 2 * m * n * k)
    wide_x, wide_w = b.random(m, k + 64), b.random(n, k + 64)
    b.rate("adapter: 64 more columns", lambda: torch.mm(wide_x, wide_w.t(), out=y), 2 * m * n * k)


def sums(b):
    """The gradient that q, k and v give their input."""
    m, n, k = b.shape(ROWS, WIDTH, WIDTH)
    dy, w, dx = b.random(m, 3 * n), b.random(3 * n, k), b.empty(m, k)

    def three_calls():
        torch.mm(dy[:, :n], w[:n], out=dx)
        for i in (1, 2):
            torch.addmm(dx, dy[:, i * n:(i + 1) * n], w[i * n:(i + 1) * n], out=dx)

    b.rate("dx of q, k, v: three products", three_calls, 6 * m * n * k)
    b.rate("dx of q, k, v: one product", lambda: torch.mm(dy, w, out=dx), 6 * m * n * k)


def gradients(b):
    m, n, k = b.shape(ROWS, HIDDEN, WIDTH)
    dy, x = b.random(m, n), b.random(m, k)
    b.rate("dW in bf16", lambda: torch.mm(dy.t(), x), 2 * m * n * k)
    b.rate("dW in f32", lambda: torch.mm(dy.t(), x, out_dtype=torch.float32), 2 * m * n * k)


def codes(t, dim):
    """In FP8, with a scale for all (None) or for each row (1)."""
    most = t.abs().amax(dim=dim, keepdim=True) if dim is not None else t.abs().amax().reshape(1, 1)
    scale = most.float().clamp_min(1e-12) / 448
    return (t.float() / scale).clamp(-448, 448).to(F8), scale


def fp8(b, sizes):
    m, n, k = b.shape(*sizes)
    x, w = b.random(m, k), b.random(n, k) * 0.02
    x[:, :8] *= 30                                   # columns that stand out
    exact = x[:256].double() @ w.double().t()

    def measured(name, f):
        name = f"{name} {'x'.join(map(str, sizes))}"
        with survived(name):
            error = ((f()[:256].double() - exact).norm() / exact.norm()).item()
            b.rate(name, f, 2 * m * n * k, error=error)

    measured("product in bf16", lambda: torch.mm(x, w.t()))
    for scales, dim in (("one scale", None), ("a scale for each row", 1)):
        (xq, sx), (wq, sw) = codes(x, dim), codes(w, dim)
        sx, sw = (sx.reshape(()), sw.reshape(())) if dim is None else (sx.contiguous(), sw.reshape(1, -1).contiguous())
        for fast in (True, False):
            measured(f"FP8, {scales}{', fast sums' if fast else ''}",
                     lambda fast=fast: torch._scaled_mm(xq, wq.t(), scale_a=sx, scale_b=sw, out_dtype=BF16, use_fast_accum=fast))
    xb, wb = x.view(m, k // 128, 128), w.view(n // 128, 128, k // 128, 128)
    sx, sw = xb.abs().amax(2).float().clamp_min(1e-12) / 448, wb.abs().amax((1, 3)).float().clamp_min(1e-12) / 448
    xq = (xb.float() / sx[..., None]).clamp(-448, 448).to(F8).view(m, k)
    wq = (wb.float() / sw[:, None, :, None]).clamp(-448, 448).to(F8).view(n, k)
    measured("FP8, scales of 128 and 128 x 128", lambda: torch._scaled_mm(xq, wq.t(), scale_a=sx.t().contiguous().t(), scale_b=sw.t(), out_dtype=BF16))


def transposition(b):
    n, k = b.shape(HIDDEN, WIDTH)
    x = torch.randint(0, 255, (n, k), device=b.device, dtype=torch.uint8)
    y = torch.empty(k, n, device=b.device, dtype=torch.uint8)
    b.rate("transposition of bytes, 11008 x 4096", lambda: y.copy_(x.t()), 2 * n * k, "GB/s", 0.5)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--all", action="store_true")
    p.add_argument("--only", choices=["fp8"], help="products in FP8 and transposition")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    a = p.parse_args()
    b = Bench(a.device, small=a.device == "cpu")
    parts = [] if a.only else [copies, products, attention]
    if a.all:
        parts += [distances, adapters, sums, gradients]
    if a.all or a.only:
        parts += [transposition]
        parts += [lambda b, s=s: fp8(b, s) for s in ((ROWS, WIDTH, WIDTH), (ROWS, HIDDEN, WIDTH), (ROWS, WIDTH, HIDDEN))] if F8 else []
    for part in parts:
        with survived():
            part(b)


if __name__ == "__main__":
    sys.exit(main())
