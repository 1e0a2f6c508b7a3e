#!/usr/bin/env python3
"""Makes ppo/: DeepSpeed-Chat's step 3 in PyTorch, on answers that ft gave, f32, on a CPU.

    V/bin/python make_ppo.py FT

ft trains on prompts.jsonl and writes its answers with their rewards. On these the formulas of DeepSpeed-Chat (its
ppo_trainer.py, written a second time) train the same policy and critic, and say what every step's losses, norms and
columns are. `shaken` is the same training from weights moved by a unit of the last place.
"""
import copy, json, sys
from pathlib import Path

import torch, transformers
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

import online_cases
from online_cases import ACCUMULATION, POLICY, ROWS, SCORER, answers_of, shake

torch.set_num_threads(1)
HERE = Path(__file__).parent
OUT = HERE / "ppo"
PER_GENERATION, USES, STEPS = 4, 2, 16
USUAL = {"kl_coef": 0.1, "cliprange": 0.2, "cliprange_value": 0.2, "cliprange_reward": 5, "gamma": 1, "lam": 0.95,
         "whiten_rewards": False, "whiten_advantages": False, "temperature": 1.0}
RUNS = {"plain": {},
        "options": {"kl_coef": 0.3, "cliprange": 0.1, "cliprange_value": 0.05, "cliprange_reward": 0.4, "gamma": 0.9,
                    "lam": 0.8, "whiten_rewards": True, "whiten_advantages": True, "temperature": 0.7,
                    "critic_learning_rate": 3e-3}}


def config(options):
    return online_cases.config({"type": "ppo", "steps_per_generation": PER_GENERATION, "num_iterations": USES, **options}, STEPS)


def load():
    how = {"dtype": torch.float32, "attn_implementation": "eager"}
    return (AutoModelForCausalLM.from_pretrained(POLICY, **how),
            AutoModelForSequenceClassification.from_pretrained(SCORER, num_labels=1, **how))


def logps_of(policy, row, temperature):
    """log p of each token of the answer, and the entropy where it was chosen."""
    ids = torch.tensor([row["prompt_ids"] + row["completion_ids"]])
    n = len(row["completion_ids"])
    logp = torch.log_softmax(policy(ids).logits[0, -n - 1:-1] / temperature, -1)
    return logp.gather(1, ids[0, -n:, None])[:, 0], -(logp.exp() * logp).sum(-1)


def values_of(critic, row):
    """What the critic says before each token of the answer."""
    ids = torch.tensor([row["prompt_ids"] + row["completion_ids"]])
    states = critic.model(ids).last_hidden_state[0, -len(row["completion_ids"]) - 1:-1]
    return critic.score(states)[:, 0]


def whiten(all, shift):
    flat = torch.cat(all)
    out = [(x - flat.mean()) / torch.sqrt(flat.var() + 1e-8) for x in all]
    return out if shift else [x + flat.mean() for x in out]


def evaluate(rows, policy, reference, critic, o):
    """Fills in what DeepSpeed-Chat's generate_experience, compute_rewards and get_advantages_and_returns make."""
    rewards, advantages = [], []
    for r in rows:
        r["old"], r["ref"] = (logps_of(m, r, o["temperature"])[0] for m in (policy, reference))
        r["values"] = values_of(critic, r)
        reward = -o["kl_coef"] * (r["old"] - r["ref"])
        reward[-1] += max(-o["cliprange_reward"], min(o["cliprange_reward"], r["reward"]))
        rewards.append(reward)
    if o["whiten_rewards"]:
        rewards = whiten(rewards, False)
    for r, reward in zip(rows, rewards):
        last, reversed_ = 0.0, []
        for t in range(len(reward) - 1, -1, -1):
            after = r["values"][t + 1] if t + 1 < len(reward) else 0.0
            delta = reward[t] + o["gamma"] * after - r["values"][t]
            last = delta + o["gamma"] * o["lam"] * last
            reversed_.append(last)
        advantages.append(torch.stack(reversed_[::-1]))
        r["returns"] = advantages[-1] + r["values"]
    if o["whiten_advantages"]:
        advantages = whiten(advantages, True)
    for r, a in zip(rows, advantages):
        r["advantages"] = a
    kl = [float((r["old"] - r["ref"]).sum()) for r in rows]
    clipped = [max(-o["cliprange_reward"], min(o["cliprange_reward"], r["reward"])) for r in rows]
    mean = lambda x: sum(x) / len(x)
    return {"objective/kl": mean(kl), "objective/entropy": mean([float(-r["old"].sum()) for r in rows]),
            "objective/non_score_reward": -o["kl_coef"] * mean(kl), "objective/scores": mean([r["reward"] for r in rows]),
            "objective/rlhf_reward": mean(clipped) - o["kl_coef"] * mean(kl)}


def losses(policy, critic, row, o):
    """Sums over the answer's tokens: of actor and critic, and of what is logged."""
    logp, entropy = logps_of(policy, row, o["temperature"])
    ahead = logp - row["old"]
    ratio = torch.exp(ahead)
    plain = -row["advantages"] * ratio
    cut = -row["advantages"] * torch.clamp(ratio, 1 - o["cliprange"], 1 + o["cliprange"])
    value = values_of(critic, row)
    bounded = torch.clamp(value, row["values"] - o["cliprange_value"], row["values"] + o["cliprange_value"])
    off, off_cut = (value - row["returns"])**2, (bounded - row["returns"])**2
    actor, value_loss = torch.max(plain, cut).sum(), 0.5 * torch.max(off, off_cut).sum()
    log = {"loss/policy_avg": actor, "policy/approxkl_avg": 0.5 * (ahead**2).sum(), "policy/entropy_avg": entropy.sum(),
           "policy/clipfrac_avg": (cut > plain).sum(), "val/ratio": ratio.sum(), "loss/value_avg": value_loss,
           "val/clipfrac_avg": (off_cut > off).sum()}
    return actor, value_loss, {k: float(v) for k, v in log.items()}


def train(rollouts, options, shaken):
    o = {**USUAL, **options}
    policy, critic = load()
    if shaken:
        shake(policy), shake(critic)
    reference = copy.deepcopy(policy)
    rates = [1e-3, o.get("critic_learning_rate", 1e-3)]
    optimizers = [torch.optim.AdamW(m.parameters(), lr=r, eps=1e-5, weight_decay=0) for m, r in zip((policy, critic), rates)]
    curves, step = [], 0
    for first in sorted({r["step"] for r in rollouts}):
        rows = [dict(r) for r in rollouts if r["step"] == first]
        with torch.no_grad():
            figures = evaluate(rows, policy, reference, critic, o)
        batches = [rows[i:i + ROWS] for i in range(0, len(rows), ROWS)]
        for use in range(USES * len(batches) // ACCUMULATION):
            own = [batches[(use * ACCUMULATION + i) % len(batches)] for i in range(ACCUMULATION)]
            tokens = sum(len(r["completion_ids"]) for b in own for r in b)
            total, logs = 0.0, []
            for b in own:
                parts = [losses(policy, critic, r, o) for r in b]
                (sum(p[0] for p in parts) / tokens).backward()
                (sum(p[1] for p in parts) / tokens).backward()
                total += sum(float(p[0]) for p in parts) / tokens
                n = sum(len(r["completion_ids"]) for r in b)
                logs.append({k: sum(p[2][k] for p in parts) / n for k in parts[0][2]})
            norm = float(torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0))
            torch.nn.utils.clip_grad_norm_(critic.parameters(), 1.0)
            for opt in optimizers:
                opt.step(), opt.zero_grad()
            row = {"loss": total, "grad_norm": norm, **{k: sum(x[k] for x in logs) / len(logs) for k in logs[0]}}
            curves.append({**row, **(figures if use == 0 else {})})
            step += 1
    return curves[:STEPS]


def apart(a, b):
    return {k: max(abs(x[k] - y[k]) / (1 + abs(x[k])) for x, y in zip(a, b) if k in x) for k in a[0]}


def main():
    OUT.mkdir(exist_ok=True)
    g = torch.Generator().manual_seed(27)
    draw = lambda low, high: int(torch.randint(low, high + 1, (1,), generator=g))
    prompts = [{"prompt_ids": [1] + [draw(3, 58) for _ in range(draw(2, 7))]} for _ in range(48)]
    (OUT / "prompts.jsonl").write_text("".join(json.dumps(p) + "\n" for p in prompts))
    runs = {}
    for name, options in RUNS.items():
        rollouts = answers_of(str(Path(sys.argv[1]).resolve()), config(options))
        curves, other = (train(rollouts, options, shaken) for shaken in (False, True))
        runs[name] = {"objective": options, "rollouts": rollouts, "shaken": apart(curves, other), "curves": curves}
        print(name, curves[0]["loss"], curves[-1]["loss"], max(runs[name]["shaken"].values()), flush=True)
    versions = {m.__name__: m.__version__ for m in (torch, transformers)}
    (OUT / "runs.json").write_text(json.dumps({"made_with": versions, "runs": runs}) + "\n")


main()
