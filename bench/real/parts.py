"""The parts of run.py. Each prints what it found through `say`, and returns whether ft is near enough."""
import json
import re
import statistics
import subprocess

from kit import write_rows

BATCH, RATE, DPO_BATCH, DPO_RATE, NEW = 4, 5e-4, 2, 1e-5, 24
LOSS, FIRST, LIKELIHOOD = 2e-5, 8, 1e-3              # largest distance that passes in float32: of a loss in the first steps, of a log probability


def same(ours, theirs):
    """Whether two answers are token for token the same; ft leaves out the end token, the others do not."""
    return ours == theirs[:len(ours)] and len(theirs) - len(ours) <= 1


def distances(ours, theirs):
    return [abs(x - y) for a, b in zip(ours, theirs, strict=True) for x, y in zip(a, b, strict=True)]


def made_once(path, make):
    if not path.exists():
        make(path)
    return path


def folder_of(a, name):
    (a.folder / name).mkdir(exist_ok=True)
    return a.folder / name


def read_by_transformers(kit, a, name):
    """The folder that transformers makes of the GGUF file."""
    there = folder_of(a, name)
    return made_once(there / "theirs", lambda to: kit.peer("read", kit.gguf(name, there), to))


def read(kit, a, say):
    good = True
    for name in a.models.split(","):
        there, file = folder_of(a, name), kit.gguf(name, folder_of(a, name))
        write_rows(there / "prompts.jsonl", [r["question"] for r in a.held_out_rows[:a.prompts]])
        ids = list(map(json.loads, kit.run_ft("tokenize", "--model", file, input=(there / "prompts.jsonl").read_text()).splitlines()))
        ours = kit.likelihoods(file, ids)
        answers = [r["output_ids"] for r in kit.answers(there, [{"input_ids": i} for i in ids], "--model", file, f"generation.max_new_tokens={NEW}")]
        exact = made_once(there / "f32.gguf", lambda to: kit.run_ft("export", "--to", "gguf", "--from", file, "--output", to, "--dtype", "float32"))
        theirs = {"transformers": kit.peer("ask", read_by_transformers(kit, a, name), there / "prompts.jsonl", NEW),
                  "llama.cpp, ft's export in f32": kit.llama(exact, there / "prompts.jsonl", NEW),
                  "llama.cpp, the same file": kit.llama(file, there / "prompts.jsonl", NEW)}
        for program, rows in theirs.items():
            far = distances(ours, [r["logprobs"] for r in rows])
            equal = sum(same(x, r["answer"]) for x, r in zip(answers, rows))
            tokens = sum(x == r["ids"] for x, r in zip(ids, rows))
            say(f"{name:8} beside {program:30} tokens {tokens} of {len(ids)}; log probabilities of {len(far)} tokens differ by "
                f"{statistics.mean(far):.1e}, at most {max(far):.1e}; {equal} of {len(ids)} greedy answers the same")
            # llama.cpp rounds activations to 8 bits where weights are quantized: only the exact ones have to agree
            good = good and (program.endswith("file") or (tokens == equal == len(ids) and max(far) <= LIKELIHOOD))
        say(f"{name:8} peer: {rows[-1]['version']}")
    return good


def conversation(row):
    """A row for training, with single spaces: transformers' tokenizer of a GGUF file forgets that SmolLM2 splits digits
    off first, and cuts "  2" in another way than the model's own tokenizer.json, llama.cpp and ft."""
    single = lambda text: re.sub("  +", " ", text)
    return {"messages": [{"role": "user", "content": single(row["question"])}, {"role": "assistant", "content": single(row["answer"])}]}


def config(file, there, steps, batch, rate, data, out, **more):
    return {"model": {"model_name_or_path": str(file)}, "lora": {"adapter_name_or_path": str(there / "start")}, **more,
            "data": {"datasets": [{"path": str(there / data)}], "shuffle": False, "max_seq_length": 512},
            "training": {"output_dir": str(there / out), "per_device_train_batch_size": batch, "gradient_accumulation_steps": 1,
                         "max_steps": steps, "learning_rate": rate, "lr_scheduler_type": "constant", "weight_decay": 0.0,
                         "max_grad_norm": 1.0, "bf16": False, "gradient_checkpointing": False},
            "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"}}


def steps_of(run):
    return [r for r in run["rows"] if "loss" in r and "step" in r]


def compare(ours, theirs, say, what, exact="loss"):
    """Prints losses and gradient norms of all steps beside each other. `exact` names the peer's loss that ft's are held to."""
    us, them = steps_of(ours), steps_of(theirs)
    apart = lambda x, y: x / y - 1
    for x, y in zip(us, them, strict=True):
        say(f"{what} step {x['step']:3}  loss {x['loss']:.7f}  {y['loss']:.7f} {apart(x['loss'], y['loss']):+.1e}  "
            + (f"summed in f64 {y[exact]:.7f} {apart(x['loss'], y[exact]):+.1e}  " if exact != "loss" else "")
            + f"gradient {x['grad_norm']:.6f}  {y['grad_norm']:.6f} {apart(x['grad_norm'], y['grad_norm']):+.1e}")
    far = [abs(apart(x["loss"], y[exact])) for x, y in zip(us, them)]
    say(f"{what} relative difference of the first loss {far[0]:.1e}, largest of the first {FIRST} steps {max(far[:FIRST]):.1e}, of all {max(far):.1e}")
    say(f"{what} peer: {json.dumps(theirs['rows'][-1])}")
    return max(far[:FIRST]) <= LOSS                  # rounding grows from step to step, in every program


def start(kit, a):
    """The first model's name, folder and file, with an adapter to begin with."""
    name = a.models.split(",")[0]
    there = folder_of(a, name)
    made_once(there / "start", lambda to: kit.peer("start", read_by_transformers(kit, a, name), to))
    return name, there, kit.gguf(name, there)


def train(kit, a, say):
    name, there, file = start(kit, a)
    write_rows(there / "train.jsonl", [conversation(r) for r in a.train_rows[:a.steps * BATCH]])
    ours = kit.train_ft(config(file, there, a.steps, BATCH, RATE, "train.jsonl", "lora"))
    theirs = kit.train_peer("train", there / "theirs", there / "start", there / "train.jsonl", a.steps, BATCH, RATE, there / "lora-theirs")
    good = compare(ours, theirs, say, f"{name} LoRA", "summed_in_f64")
    tokens = sum(r["tokens"] for r in steps_of(theirs)[1:])
    for program, run in ("ft", ours), ("PEFT", theirs):
        say(f"{name} LoRA  {program:5} {tokens / sum(run['seconds'][1:]):7.1f} tok/s  {run['peak_gib']:.2f} GiB  first step after {run['first_step_s']:.1f} s")
    return good


def result_of(text):
    """The number behind "####", and whether it is there; a model that was not taught that form has its last number counted."""
    found = re.search(r"#### *(-?[\d,.]*\d)", text)
    numbers = [found[1]] if found else re.findall(r"-?\d[\d,]*\.?\d*", text)
    return (numbers[-1].replace(",", "").rstrip(".") if numbers else ""), bool(found)


def marks(kit, there, rows, *options):
    """The numbers of right answers, and of answers in GSM8K's form, that ft gives to problems."""
    asked = [{"messages": conversation(r)["messages"][:1]} for r in rows]
    given = [r["completion"] for r in kit.answers(there, asked, *options, "generation.max_new_tokens=128", "generation.batch_size=16")]
    read_out = [result_of(text) for text in given]
    return sum(value == result_of(r["answer"])[0] for (value, _), r in zip(read_out, rows)), sum(form for _, form in read_out)


def answers(kit, a, say):
    name, there, file = start(kit, a)
    rows = a.held_out_rows[:a.problems]
    write_rows(there / "held_out.jsonl", [conversation(r) for r in rows])
    settings = config(file, there, 1, BATCH, RATE, "held_out.jsonl", "none")
    settings["data"]["eval_datasets"] = settings["data"]["datasets"]
    (there / "held_out.json").write_text(json.dumps(settings))
    for who, adapter in ("the model", None), ("ft's adapter", there / "lora"), ("PEFT's adapter", there / "lora-theirs"):
        told = json.loads(kit.run_ft("eval", "--config", there / "held_out.json", "--adapter", adapter or there / "start", "--json"))
        right, form = marks(kit, there, rows, "--model", file, *(["--adapter", adapter] if adapter else []))
        say(f"{name} {len(rows)} held-out problems, {who:15} loss {told['eval_loss']:.4f}, {form} answers in GSM8K's form, {right} right")
    return True


def dpo(kit, a, say):
    """Right answers against the same with another result, which TRL is given as conversations."""
    name, there, file = start(kit, a)
    pairs = []
    for r in a.train_rows[:a.pairs]:
        question, right = conversation(r)["messages"]
        wrong = re.sub(r"#### *(\S+)$", lambda m: f"#### {int(re.sub(r'[^0-9]', '', m[1])) + 7}", r["answer"])
        pairs.append({"prompt": [question], "chosen": [right], "rejected": [{"role": "assistant", "content": wrong}]})
    write_rows(there / "pairs.jsonl", pairs)
    steps = len(pairs) // DPO_BATCH
    ours = kit.train_ft(config(file, there, steps, DPO_BATCH, DPO_RATE, "pairs.jsonl", "dpo", objective={"type": "dpo", "beta": 0.1}))
    theirs = kit.train_peer("dpo", there / "theirs", there / "start", there / "pairs.jsonl", steps, DPO_BATCH, DPO_RATE, there / "dpo-theirs")
    return compare(ours, theirs, say, f"{name} DPO")


def take(kit, a, say):
    name, there, file = start(kit, a)
    merged = made_once(there / "merged", lambda to: kit.run_ft("merge", "--model", file, "--adapter", there / "lora", "--output", to, "--dtype", "float32"))
    write_rows(there / "ask_merged.jsonl", [r["question"] for r in a.held_out_rows[:a.prompts]])
    ids = list(map(json.loads, kit.run_ft("tokenize", "--model", merged, input=(there / "ask_merged.jsonl").read_text()).splitlines()))
    greedy = lambda *options: [r["output_ids"] for r in kit.answers(there, [{"input_ids": i} for i in ids], *options, f"generation.max_new_tokens={NEW}")]
    ours, beside = greedy("--model", merged), greedy("--model", file, "--adapter", there / "lora")
    say(f"{name} merged: {sum(x == y for x, y in zip(ours, beside))} of {len(ids)} answers are those of model and adapter")
    good = True
    for dtype in "float32", "q8_0":
        out = made_once(there / f"merged-{dtype}.gguf", lambda to: kit.run_ft("export", "--to", "gguf", "--from", merged, "--output", to, "--dtype", dtype))
        equal = sum(same(x, r["answer"]) for x, r in zip(ours, kit.llama(out, there / "ask_merged.jsonl", NEW)))
        say(f"{name} as GGUF in {dtype:7} ({out.stat().st_size / 1e6:.0f} MB): {equal} of {len(ids)} answers of llama.cpp are the merged model's in float32")
        good = good and (dtype != "float32" or equal == len(ids))
    question = a.held_out_rows[0]["question"]
    said = subprocess.run([kit.ft, "chat", "--model", merged, "generation.max_new_tokens=128"], input=question + "\n", stdout=subprocess.PIPE,
                          stderr=kit.log, text=True, check=True).stdout
    say(f"{name} chat: {question}\n    {said.strip()}")
    return good


ALL = {f.__name__: f for f in (read, train, answers, dpo, take)}
