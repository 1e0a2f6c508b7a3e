#!/usr/bin/env python3
"""Random runs of newer objectives beside TRL, f32, on the tiny LLaMA of tests/golden: every step's loss and gradient norm.

    PYTHON beside_trl.py FT [--runs 25] [--seed 1] [--kinds cispo,sapo,dft,gkd,reinforce] [--result FILE]

PYTHON has torch, transformers, peft, datasets and trl 1.16. Of each kind --runs runs with random settings:
cispo, sapo  ft answers prompts with a reward model; GRPOTrainer gets the answers in place of its own
dft          SFTTrainer with loss_type dft on the same rows, full or LoRA
gkd          the first step on the student's own answers: GKDTrainer's generalized_jsd_loss on the answers of ft generate
reinforce    OpenRLHF's formulas written out in PyTorch (TRL has no such trainer), on ft's answers
A number may differ by BOUND, or by four times as much as in the same PyTorch run from weights moved by one unit of the last
place. Ends with 1 if one is further away.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", CUDA_VISIBLE_DEVICES="", TQDM_DISABLE="1",
                  HF_DATASETS_CACHE=tempfile.mkdtemp())
import datasets
import peft
import torch
import transformers
import trl
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl.experimental.gkd import GKDTrainer
from trl.trainer import grpo_trainer

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from provenance import Result  # noqa: E402

torch.set_num_threads(1)
datasets.disable_progress_bars()
grpo_trainer.shuffle_sequence_dict = lambda rows: rows
transformers.logging.set_verbosity_error()
GOLDEN = HERE.parent.parent / "tests/golden"
MODEL, SCORER, PROMPTS = GOLDEN / "models/llama-gqa/model", GOLDEN / "preference/reward/model", GOLDEN / "ppo/prompts.jsonl"
ADAPTER = GOLDEN / "models/lora/adapter"
ROWS, ACCUMULATION, END, VOCABULARY = 3, 2, 2, 59
BOUND = 2e-5


def load(path=MODEL):
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")


def shake(m):
    g = torch.Generator().manual_seed(1)
    for p in m.parameters():
        p.data.mul_(1 + torch.randint(-1, 2, p.shape, generator=g) * 2.0**-23)
    return m


def tokenizer():
    words = {f"t{i}": i for i in range(VOCABULARY)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(words, unk_token="t0")), bos_token="t1", eos_token=f"t{END}",
                                   pad_token="t0")


def training(steps, rows=ROWS, accumulation=ACCUMULATION):
    return {"per_device_train_batch_size": rows, "gradient_accumulation_steps": accumulation, "max_steps": steps, "learning_rate": 1e-3,
            "lr_scheduler_type": "constant", "weight_decay": 0, "max_grad_norm": 1, "adam_epsilon": 1e-5, "bf16": False}


def arguments(folder, steps, **more):
    return {"output_dir": folder, "logging_steps": 1, "report_to": [], "use_cpu": True, "gradient_checkpointing": False,
            "save_strategy": "no", "disable_tqdm": True, "dataloader_pin_memory": False, **training(steps), **more}


def run_ft(ft, config, folder):
    Path(folder, "run.json").write_text(json.dumps(
        {"finetuning_type": "full", "checkpointing": {"save_strategy": "no"}, "logging": {"logging_steps": 1, "progress": "none"}, **config}))
    done = subprocess.run([ft, "train", "--config", "run.json"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    log = [json.loads(line) for line in open(Path(folder, "out/log.jsonl"))]
    return [r for r in log if "loss" in r]


def online(ft, objective, steps, folder):
    log = run_ft(ft, {"model": {"model_name_or_path": str(MODEL)},
                      "objective": {"reward_model_name_or_path": str(SCORER), "max_completion_length": 6, **objective},
                      "data": {"datasets": [{"path": str(PROMPTS)}], "max_seq_length": 32, "shuffle": False},
                      "training": {"output_dir": "out", **training(steps)}}, folder)
    return log, [json.loads(line) for line in open(Path(folder, "out/rollouts.jsonl"))]


class OnGivenAnswers(trl.GRPOTrainer):
    """given: the answers, in the order in which they are asked for; a prompt is its tokens as JSON."""

    def _generate(self, prompts):
        self.now, self.given = self.given[:len(prompts)], self.given[len(prompts):]
        assert [json.loads(p) for p in prompts] == [r["prompt_ids"] for r in self.now]
        ids = [[r[k] for r in self.now] for k in ("prompt_ids", "completion_ids")]
        return *ids, None, ["" for _ in self.now], None, {}, None, None


def grpo(ft, draw, loss):
    options = {"loss_type": loss, "num_generations": draw.choice([2, 3]), "num_iterations": draw.choice([2, 3]),
               "beta": draw.choice([0.0, 0.1]), "temperature": draw.choice([1.0, 0.7]),
               "scale_rewards": draw.choice(["group", "batch", "none"]), "importance_sampling_level": draw.choice(["token", "sequence"])}
    if loss == "cispo":
        options["epsilon_high"] = draw.choice([0.2, 1.002, 1.1, 5.0])
    else:
        options.update(sapo_temperature_pos=draw.uniform(0.5, 2), sapo_temperature_neg=draw.uniform(0.5, 2))
    steps = 6
    with tempfile.TemporaryDirectory() as folder:
        log, rollouts = online(ft, {"type": "grpo", **options}, steps, folder)

        def train(shaken):
            policy = shake(load()) if shaken else load()
            args = trl.GRPOConfig(**arguments(folder, steps), shuffle_dataset=False, max_completion_length=6, **options)
            prompts = datasets.Dataset.from_list(
                [{"prompt": json.dumps(r["prompt_ids"])} for r in rollouts[::options["num_generations"]]])
            trainer = OnGivenAnswers(model=policy, reward_funcs=lambda **_: [r["reward"] for r in trainer.now], args=args,
                                     train_dataset=prompts, processing_class=tokenizer())
            trainer.given = rollouts
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
            return [r for r in trainer.state.log_history if "loss" in r]

        return options, log, train(False), train(True)


def rows_of(draw, count):
    rows = []
    for _ in range(count):
        ids = [draw.randrange(3, VOCABULARY) for _ in range(draw.randrange(3, 14))]
        prompt = draw.randrange(0, len(ids) - 1)
        rows.append({"input_ids": ids, "labels": [-100] * prompt + ids[prompt:]})
    return rows


def dft(ft, draw):
    lora, steps, rows = draw.random() < 0.5, 8, draw.choice([1, 2, 4])
    examples = rows_of(draw, steps * rows * ACCUMULATION)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in examples))
        config = {"model": {"model_name_or_path": str(MODEL)}, "objective": {"loss_type": "dft"},
                  "data": {"datasets": [{"path": "rows.jsonl"}], "shuffle": False},
                  "training": {"output_dir": "out", **training(steps, rows)}}
        if lora:
            config.update(finetuning_type="lora", lora={"adapter_name_or_path": str(ADAPTER)})
        log = run_ft(ft, config, folder)

        def train(shaken):
            m = shake(load()) if shaken else load()
            if lora:
                m = peft.PeftModel.from_pretrained(m, ADAPTER, is_trainable=True)
            args = trl.SFTConfig(**arguments(folder, steps, per_device_train_batch_size=rows), loss_type="dft", max_length=64,
                                 train_sampling_strategy="sequential")
            trainer = trl.SFTTrainer(m, args=args, processing_class=tokenizer(), train_dataset=datasets.Dataset.from_list(examples))
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
            return [r for r in trainer.state.log_history if "loss" in r]

        return {"lora": lora, "rows": rows}, log, train(False), train(True)


def padded(rows):
    width = max(len(r["input_ids"]) for r in rows)
    fill = lambda key, value: torch.tensor([r[key] + [value] * (width - len(r[key])) for r in rows])
    mask = torch.tensor([[1] * len(r["input_ids"]) + [0] * (width - len(r["input_ids"])) for r in rows])
    return fill("input_ids", 0), fill("labels", -100), mask


def norm_of(m):
    return float(torch.sqrt(sum((p.grad**2).sum() for p in m.parameters() if p.grad is not None)))


def gkd(ft, draw):
    beta, temperature = draw.choice([0.0, 0.3, 0.5, 1.0]), draw.choice([0.7, 1.0, 1.5])
    examples = [{**r, "labels": [-100] + r["labels"][1:]} for r in rows_of(draw, 6)]
    prompts = [{"input_ids": r["input_ids"][:next(t for t, x in enumerate(r["labels"]) if x != -100)]} for r in examples]
    with tempfile.TemporaryDirectory() as folder:
        teacher = Path(folder, "teacher")
        m = load()
        g = torch.Generator().manual_seed(draw.randrange(2**31))
        for p in m.parameters():
            p.data.add_(0.05 * torch.randn(p.shape, generator=g))
        m.save_pretrained(teacher)
        for name, rows in (("rows", examples), ("prompts", prompts)):
            Path(folder, f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        asked = draw.random() < 0.5  # the teacher answers
        objective = {"type": "distill", "teacher_model_name_or_path": str(teacher), "beta": beta, "temperature": temperature,
                     "max_completion_length": 7, **({"seq_kd": True} if asked else {"lmbda": 1})}
        log = run_ft(ft, {"model": {"model_name_or_path": str(MODEL)}, "objective": objective,
                          "data": {"datasets": [{"path": "rows.jsonl"}], "shuffle": False},
                          "training": {"output_dir": "out", **training(1)}}, folder)
        done = subprocess.run([ft, "generate", "--model", str(teacher if asked else MODEL), "--input", "prompts.jsonl", "--output", "given.jsonl",
                               "generation.do_sample=true", f"generation.temperature={temperature}", "generation.top_k=0",
                               "generation.max_new_tokens=7"], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        answers = [json.loads(line)["output_ids"] for line in open(Path(folder, "given.jsonl"))]
        answers = [a + [END] if len(a) < 7 else a for a in answers]
        rows = [{"input_ids": p["input_ids"] + a, "labels": [-100] * len(p["input_ids"]) + a} for p, a in zip(prompts, answers)]

        def train(shaken):
            student, other = shake(load()) if shaken else load(), load(teacher)
            ids, labels, mask = padded(rows)
            with torch.no_grad():
                taught = other(input_ids=ids, attention_mask=mask).logits
            logits = student(input_ids=ids, attention_mask=mask).logits
            loss = GKDTrainer.generalized_jsd_loss(logits[:, :-1], taught[:, :-1], labels=labels[:, 1:], beta=beta, temperature=temperature)
            loss.backward()
            return [{"loss": loss.item(), "grad_norm": norm_of(student)}]

        return {"beta": beta, "temperature": temperature, "taught": asked}, log, train(False), train(True)


def logps_of(m, rows, temperature):
    """Log-probabilities of the answers' tokens, one answer after another."""
    ids, labels, mask = padded([{"input_ids": r["prompt_ids"] + r["completion_ids"],
                                 "labels": [-100] * len(r["prompt_ids"]) + r["completion_ids"]} for r in rows])
    logits = m(input_ids=ids, attention_mask=mask).logits[:, :-1] / temperature
    target = labels[:, 1:]
    each = torch.log_softmax(logits, -1).gather(-1, target.clamp(min=0)[..., None])[..., 0]
    return each[target != -100]


def reinforce_advantages(rows, old, reference, o):
    rewards = torch.tensor([r["reward"] for r in rows], dtype=torch.float64)
    if o["group_baseline"]:
        groups = rewards.reshape(-1, o["num_generations"])
        rewards = (groups - groups.mean(-1, keepdim=True)).flatten()
    if "reward_clip_range" in o:
        rewards = rewards.clamp(*o["reward_clip_range"])
    returns, at = [], 0
    for r, reward in zip(rows, rewards):
        n = len(r["completion_ids"])
        each = -o["beta"] * (old[at:at + n] - reference[at:at + n]).double()
        each[-1] += reward
        returns.append(each.flip(0).cumsum(0).flip(0))
        at += n
    advantages = torch.cat(returns)
    if o["normalize_advantages"]:
        off = advantages - advantages.mean()
        advantages = off * (off**2).mean().clamp(min=1e-8).rsqrt()
    return advantages.float()


def reinforce(ft, draw):
    o = {"group_baseline": draw.random() < 0.5, "num_iterations": draw.choice([1, 2]), "beta": draw.choice([0.0, 0.01, 0.2]),
         "temperature": draw.choice([1.0, 0.7]), "normalize_advantages": draw.random() < 0.7, "epsilon": draw.choice([0.01, 0.2])}
    o["num_generations"] = draw.choice([2, 3]) if o["group_baseline"] else draw.choice([1, 2])
    if draw.random() < 0.3:
        o["reward_clip_range"] = [-0.5, 1]
    steps = 6
    with tempfile.TemporaryDirectory() as folder:
        log, rollouts = online(ft, {"type": "reinforce++", **o}, steps, folder)

    def train(shaken):
        policy, begun = (shake(load()) if shaken else load() for _ in range(2))
        optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3, weight_decay=0, eps=1e-5)
        curve, size = [], ROWS * ACCUMULATION
        for step in range(steps):
            if step % o["num_iterations"] == 0:
                first = step // o["num_iterations"] * size
                rows = rollouts[first:first + size]
                with torch.no_grad():
                    old, reference = (logps_of(m, rows, o["temperature"]) for m in (policy, begun))
                advantages = reinforce_advantages(rows, old, reference, o)
            ratio = torch.exp(logps_of(policy, rows, o["temperature"]) - old)
            loss = -torch.min(ratio * advantages, ratio.clamp(1 - o["epsilon"], 1 + o["epsilon"]) * advantages).mean()
            optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            curve.append({"loss": loss.item(), "grad_norm": norm.item()})
        return curve

    return o, log, train(False), train(True)


KINDS = {"cispo": lambda ft, draw: grpo(ft, draw, "cispo"), "sapo": lambda ft, draw: grpo(ft, draw, "sapo"), "dft": dft, "gkd": gkd,
         "reinforce": reinforce}


def distance(name, log, curve, other):
    """The largest difference of a step's number as a share of what is allowed, and as it is."""
    worst, largest = 0.0, 0.0
    for ours, theirs, moved in zip(log, curve, other, strict=True):
        size = 1 + abs(theirs[name])
        apart = abs(ours[name] - theirs[name]) / size
        luck = abs(moved[name] - theirs[name]) / size
        worst, largest = max(worst, apart / (BOUND + 4 * luck)), max(largest, apart)
    return worst, largest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ft", type=lambda p: str(Path(p).resolve()))
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--result", type=Path)
    a = parser.parse_args()
    result = Result(f"bench/preference/beside_trl.py FT --runs {a.runs} --seed {a.seed} --kinds {a.kinds}")
    result.say(f"peer      torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}, trl {trl.__version__}")
    bad = 0
    for kind in a.kinds.split(","):
        agree, losses, norms = 0, 0.0, 0.0
        for i in range(a.runs):
            options, log, curve, other = KINDS[kind](a.ft, random.Random(f"{a.seed} {kind} {i}"))
            (loss_share, loss), (norm_share, norm) = (distance(n, log, curve, other) for n in ("loss", "grad_norm"))
            losses, norms = max(losses, loss), max(norms, norm)
            if max(loss_share, norm_share) <= 1:
                agree += 1
            else:
                result.say(f"{kind} {i}: {options}: loss {loss:.1e}, norm {norm:.1e}, {max(loss_share, norm_share):.1f} times the bound")
        bad += a.runs - agree
        result.say(f"{kind:10} {agree} of {a.runs} runs agree; largest difference of a step's loss {losses:.1e}, of its gradient's norm {norms:.1e}")
    result.write(a.result)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
