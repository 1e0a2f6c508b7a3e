"""Part 1: is what a GPU computes right? Op tests, goldens, training beside the CPU's, ranks over NCCL and through the host."""
import json
import re
import shutil
import socket

from kit import Command, Step

SHARDS = 16   # of a test program, side by side
# Two ranks on one GPU, which NCCL refuses unless it takes them for two machines.
ONE_GPU = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_P2P_DISABLE": 1, "NCCL_SHM_DISABLE": 1, "NCCL_NVLS_ENABLE": 0,
           "NCCL_MNNVL_ENABLE": 0, "NCCL_MAX_CTAS": 2}
TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 1024, "hidden_size": 256, "intermediate_size": 704,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "hidden_act": "silu", "torch_dtype": "float32", "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
KINDS = {"lora": [], "qlora": ["quantization.load_in_4bit=true"], "full": ["finetuning_type=full"]}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_tiny(c):
    """A model and a run.json in the work folder."""
    folder = c.work / "tiny"
    if (folder / "run.json").exists():
        return
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(TINY))
    c.call([c.ft, "init", "--config", folder / "config.json", "--output", folder / "model"])
    c.write_tokens(folder / "train.jsonl", TINY["vocab_size"], 64, 128)
    run = {"model": {"model_name_or_path": str(folder / "model")}, "lora": {"r": 8, "target_modules": "all-linear", "lora_dropout": 0.0},
           "data": {"datasets": [{"path": str(folder / "train.jsonl"), "type": "tokenized"}], "max_seq_length": 128, "shuffle": False},
           "training": {"per_device_train_batch_size": 2, "max_steps": 6, "learning_rate": 1e-3, "bf16": False},
           "zero_optimization": {"stage3_param_persistence_threshold": 0},
           "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"}}
    (folder / "run.json").write_text(json.dumps(run, indent=1))


def losses(out):
    return [row["loss"] for row in map(json.loads, open(out / "log.jsonl")) if "loss" in row]


def near(a, b, bound, what):
    worst = max(abs(x - y) / abs(y) for x, y in zip(a, b))
    assert len(a) == len(b) and worst <= bound, f"{what}: losses differ by {worst:.1e}, more than {bound:.0e}"
    return worst


def train(c, out, *more):
    return [*c.ft_words, "train", "--config", c.work / "tiny" / "run.json", "--overwrite", f"training.output_dir={c.work / out}", *more]


def two_ranks(c, out, backend, *more, steps=6, kill=False):
    port = free_port()
    group = []
    for rank in (0, 1):
        environment = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                       "FT_TOKEN": "kit", **c.environment, **({"NCCL_HOSTID": f"rank{rank}", **ONE_GPU} if backend == "nccl" else {})}
        words = train(c, out, f"device={c.device}", f"distributed.backend={backend}", f"training.max_steps={steps}", *more)
        group.append(Command(words, environment, kill_when=c.work / out / "log.jsonl" if kill and rank == 1 else None))
    return group


def kinds_beside_cpu(c):
    for kind, settings in KINDS.items():
        for precision, bound in (("f32", 1e-4), ("bf16", 2e-2), ("fp16", 5e-3)):
            name = f"{kind}-{precision}"
            more = [*settings, *(f"training.{name}={'true' if precision == name else 'false'}" for name in ("bf16", "fp16"))]
            if kind == "qlora" and precision == "f32":
                more.append("quantization.bnb_4bit_compute_dtype=float32")
            groups = [[Command(train(c, f"{name}-{d}", f"device={d}", *more), c.environment)] for d in ("cpu", c.device)]

            def check(_, name=name, bound=bound):
                worst = near(losses(c.work / f"{name}-{c.device}"), losses(c.work / f"{name}-cpu"), bound, "GPU and CPU")
                return f"largest relative difference of a loss {worst:.1e}"

            yield Step(f"train {kind} {precision} beside the CPU", groups, 60, lambda: make_tiny(c), check)


def cudnn_beside_own(c, missing):
    """Sequences of a length that cuDNN takes as they lie, and of one that it is told of."""
    for length in (128, 100):
        more = ["device=cuda", "training.bf16=true", f"data.max_seq_length={length}"]
        groups = [[Command(train(c, f"attention-{a}-{length}", *more, f"model.attn_implementation={a}"), c.environment)] for a in ("auto", "cudnn")]

        def check(_, length=length):
            runs = [losses(c.work / f"attention-{a}-{length}") for a in ("cudnn", "auto")]
            return f"largest relative difference of a loss {near(*runs, 2e-2, 'cuDNN and its own'):.1e}"

        yield Step(f"train lora bf16 with cuDNN, {length} tokens", groups, 60, lambda: make_tiny(c), check, missing)


def zero_stages(c, backend, missing):
    """All stages of two ranks on one GPU: bits of stage 0, near one rank's run of the same global batch."""
    for kind in ("lora", "full"):
        one = [Command(train(c, f"{backend}-{kind}-one", f"device={c.device}", "training.gradient_accumulation_steps=2", *KINDS[kind]), c.environment)]
        groups = [one] + [two_ranks(c, f"{backend}-{kind}-{stage}", backend, f"zero_stage={stage}", *KINDS[kind]) for stage in range(4)]

        def check(_, kind=kind):
            runs = [losses(c.work / f"{backend}-{kind}-{stage}") for stage in range(4)]
            worst = near(runs[0], losses(c.work / f"{backend}-{kind}-one"), 1e-5, "two ranks and one")
            assert all(r == runs[0] for r in runs), f"stages differ: {runs}"
            return f"stages 0-3 have the same losses; two ranks and one differ by {worst:.1e}"

        yield Step(f"ZeRO {kind}, two ranks on one {c.device}, {backend}", groups, 150, lambda: make_tiny(c), check, missing)


def lost_rank(c, backend, missing):
    group = two_ranks(c, f"{backend}-killed", backend, "zero_stage=3", steps=100000, kill=True)

    def check(outcomes):
        after = outcomes[0].seconds - outcomes[1].seconds
        assert "rank 1" in outcomes[0].text, "the message does not name rank 1"
        assert after < 5, f"rank 0 ended only {after:.1f} s later"
        return f"rank 0 ended {after:.1f} s after it, with exit code 8, naming it"

    yield Step(f"a rank is killed, {backend}", [group], 60, lambda: (make_tiny(c), shutil.rmtree(c.work / f"{backend}-killed", ignore_errors=True)),
               check, missing, codes=(8,))


def tests_passed(outcomes):
    """Of all shards together."""
    counts = {"PASSED": 0, "SKIPPED": 0}
    for outcome in outcomes:
        found = re.findall(r"^\[  (PASSED |SKIPPED) \] (\d+) test", outcome.text, re.MULTILINE)
        assert found, "it did not say how many tests passed"
        for word, count in found:
            counts[word.strip()] += int(count)
    return f"{counts['PASSED']} passed" + (f", {counts['SKIPPED']} skipped" if counts["SKIPPED"] else "")


def steps(c):
    def program(name):
        return c.programs / name, "" if (c.programs / name).exists() else f"there is no {name} in {c.programs}"

    gpu_test, no_tests = program("gpu_test" if c.device == "cuda" else "cuda_test")
    golden, no_golden = program("gpu_golden_test" if c.device == "cuda" else "cuda_golden_test")
    no_gpu = "" if c.device == "cuda" else "needs a GPU"
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin") or ""

    def test(words, shards=1):
        """Side by side: most of a test's time is the CPU's, which computes what the GPU should have."""
        return [[Command(words, {**c.environment, "GTEST_TOTAL_SHARDS": shards, "GTEST_SHARD_INDEX": i}) for i in range(shards)]]

    cudnn = "CudnnOnGpu.*"    # it makes a plan for every shape, which takes minutes
    ops = f"--gtest_filter=-{cudnn}" if c.device == "cuda" else "--gtest_filter=CudaQueue.*"
    yield Step("op tests", test([gpu_test, "--gtest_brief=1", ops], SHARDS), 120, check=tests_passed, missing=no_tests)
    yield Step("goldens", test([golden, "--gtest_brief=1"]), 90, check=tests_passed, missing=no_golden)
    yield Step("NCCL with one rank", test([gpu_test, "--gtest_filter=NcclRanks.*"]), 60, check=tests_passed, missing=no_tests)
    yield from kinds_beside_cpu(c)
    yield Step("cuDNN beside ft's own attention", test([gpu_test, "--gtest_brief=1", f"--gtest_filter={cudnn}"]), 180, check=tests_passed, missing=no_gpu or no_tests)
    yield from cudnn_beside_own(c, no_gpu)
    yield from zero_stages(c, "tcp", "")
    yield from zero_stages(c, "nccl", no_gpu)
    yield from lost_rank(c, "tcp", "")
    yield from lost_rank(c, "nccl", no_gpu)
    no_sanitizer = no_gpu or no_tests or ("" if sanitizer else "there is no compute-sanitizer")
    for tool in ("memcheck", "racecheck"):
        # Tests ask for more memory than there is: an error that the program meets is none that it makes.
        quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []
        yield Step(f"compute-sanitizer {tool}", test([sanitizer or "compute-sanitizer", "--tool", tool, *quiet, "--error-exitcode", "1", gpu_test, "--gtest_brief=1",
                                                      f"--gtest_filter=-*Staged*:Nccl*:{cudnn}"], SHARDS), 120, check=tests_passed, missing=no_sanitizer)
