"""Part 4: LoRA with frozen weights in FP8, and LoRA and full with products in FP8, beside bf16 on the same card, in turns."""
import statistics

import speed
from kit import Command, Step
from speed import HERE, Work

WAYS = {
    "lora": {"bf16": (), "FP8 weights": ("model.frozen_dtype=fp8",), "FP8 products": ("model.frozen_dtype=fp8", "training.fp8=true")},
    "full": {"bf16": (), "FP8 products": ("training.fp8=true",)},
}
WORKS = [Work("LoRA r16, 2 x 4096, 8 layers", "lora", 2, 4096, model="llama8"), Work("full, 2 x 4096, 8 layers", "full", 2, 4096, model="llama8"),
         Work("LoRA r16, 2 x 4096", "lora", 2, 4096)]
TURNS = 2


def right(c):
    """The products of the test program, on this card."""
    tests = c.programs / "gpu_test"
    words = [tests, "--gtest_filter=CudaFp8Products.*"]
    return Step("products in FP8 are right", [[Command(words, c.environment)]], 60, check=lambda o: o[0].text.strip().splitlines()[-1],
                missing="" if tests.exists() else f"there is no gpu_test in {c.programs}")


def computations(c):
    ops = c.programs / "bench_gpu"
    return Step("products in FP8 beside bf16", [[Command([ops, "--only", "W"], c.environment)]], 30, check=lambda o: speed.condition_of(c, o[0]) + o[0].text,
                missing="needs a GPU" if c.device != "cuda" else "" if ops.exists() else f"there is no bench_gpu in {c.programs}")


def models(c):
    commands = [command for command in (speed.init(c, w.model) for w in WORKS) if command]
    return Step("models are made", [commands], 120, missing="" if commands else "they are there")


def pytorch(c):
    """cuBLASLt's and CUTLASS' products in FP8 as PyTorch calls them."""
    words = [c.python, HERE / "ceilings.py", "--device", c.device, "--only", "fp8"]

    def check(outcomes):
        lines = [f"{r['name']}: {r['value']:.0f} {r['unit']}, burst {r['first']:.0f}" + (f", error {r['error']:.1e}" if "error" in r else "")
                 if "value" in r else f"{r.get('name')}: {r.get('error')}" for r in outcomes[0].rows()]
        assert lines, "nothing was measured: " + outcomes[0].text[-300:]
        return "\n".join(lines)

    return Step("products in FP8 of PyTorch", [[Command(words)]], 90, check=check, missing=c.no_peer)


def comparison(table):
    """Speed, memory and last loss of each way; ratios to bf16 of the same turn's card."""
    lines = []
    for work in WORKS:
        base = None
        for way in WAYS[work.kind]:
            rows = [r for name, who, r in table if name == work.name and who.startswith(f"ft, {way},")]
            if not rows:
                continue
            speeds = [r["wall_clock"] or r["tokens_per_second"] for r in rows]
            middle, loss = statistics.mean(speeds), rows[0]["last_loss"]
            base = base or (middle, loss)
            lines.append(f"{work.name}, {way}: {middle:.0f} tok/s ({', '.join(f'{s:.0f}' for s in speeds)}), {middle / base[0]:.3f} of bf16, "
                         f"{speed.gib(rows[0]['peak_gib'])} GiB (ft's plan: {speed.gib(rows[0]['planned_gib'])}), first loss {rows[0]['first_loss']:.4f}, "
                         f"last loss {loss:.4f} ({100 * (loss / base[1] - 1):+.2f} %)")
    assert lines, "no run was measured"
    return "\n".join(lines)


def steps(c, table):
    yield models(c)
    yield right(c)
    yield computations(c)
    for work in WORKS:
        for turn in range(1, TURNS + 1):
            for way, settings in WAYS[work.kind].items():
                yield speed.measure(c, work, table, f"{way}, turn {turn}", *settings)
        yield Step(f"FP8 beside bf16: {work.name}", [], 5, check=lambda _: comparison(table))
    measured = ("training.gemm_tuning=" + str(c.results / "gemm_tuning_fp8.jsonl"),)
    yield speed.measure(c, WORKS[0], table, "FP8 products with measured algorithms", *WAYS["lora"]["FP8 products"], *measured,
                        missing="" if c.device == "cuda" else "needs a GPU")
    yield pytorch(c)
