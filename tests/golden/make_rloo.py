#!/usr/bin/env python3
"""Makes rloo/: TRL's RLOOTrainer on answers that ft gave, f32, on a CPU.

    V/bin/python make_rloo.py FT

ft trains on ppo/prompts.jsonl and writes its answers with their rewards. RLOOTrainer gets these in place of answers of
its own, in their order, and says what every step's losses, norms and columns are. `shaken` is the same training from
weights moved by a unit of the last place.
"""
import json, sys, tempfile
from pathlib import Path

import torch, transformers, trl
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl.trainer import rloo_trainer

import online_cases
from online_cases import ACCUMULATION, POLICY, ROWS, answers_of, shake

torch.set_num_threads(1)
HERE = Path(__file__).parent
STEPS = 8
RUNS = {"plain": {"num_generations": 3},
        "options": {"num_generations": 2, "beta": 0.3, "epsilon": 0.3, "epsilon_high": 0.5, "normalize_advantages": True,
                    "reward_clip_range": [-0.5, 1], "temperature": 0.7}}
COLUMNS = ("loss", "grad_norm", "kl", "entropy", "reward", "reward_std", "frac_reward_zero_std", "clip_ratio/low_mean",
           "clip_ratio/high_mean", "clip_ratio/region_mean")


def config(options):
    return online_cases.config({"type": "rloo", "num_iterations": 2, **options}, STEPS)


def tokenizer():
    words = {f"t{i}": i for i in range(59)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(words, unk_token="t0")), bos_token="t1", eos_token="t2",
                                   pad_token="t0")


class OnGivenAnswers(trl.RLOOTrainer):
    """given: the answers, in the order in which they are asked for; a prompt is its tokens as JSON."""

    def _generate(self, prompts):
        self.now, self.given = self.given[:len(prompts)], self.given[len(prompts):]
        assert [json.loads(p) for p in prompts] == [r["prompt_ids"] for r in self.now]
        return [r["prompt_ids"] for r in self.now], [r["completion_ids"] for r in self.now], ["" for _ in self.now]


def train(rollouts, options, shaken):
    policy = AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32, attn_implementation="eager")
    if shaken:
        shake(policy)
    rloo_trainer.shuffle_sequence_dict = lambda rows: rows
    with tempfile.TemporaryDirectory() as folder:
        args = trl.RLOOConfig(output_dir=folder, per_device_train_batch_size=ROWS, gradient_accumulation_steps=ACCUMULATION,
                              max_steps=STEPS, learning_rate=1e-3, lr_scheduler_type="constant", weight_decay=0, max_grad_norm=1,
                              adam_epsilon=1e-5, logging_steps=1, shuffle_dataset=False, report_to=[], bf16=False, use_cpu=True,
                              gradient_checkpointing=False, save_strategy="no", max_completion_length=6, num_iterations=2, **options)
        prompts = Dataset.from_list([{"prompt": json.dumps(r["prompt_ids"])} for r in rollouts[::options["num_generations"]]])
        reference = AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32, attn_implementation="eager")
        if shaken:
            shake(reference)
        trainer = OnGivenAnswers(model=policy, reward_funcs=lambda **_: [r["reward"] for r in trainer.now], args=args,
                                 train_dataset=prompts, processing_class=tokenizer())
        trainer.ref_model.load_state_dict(reference.state_dict())
        trainer.given = rollouts
        trainer.train()
    return [{k: row[k] for k in COLUMNS if k in row} for row in trainer.state.log_history if "loss" in row]


def apart(a, b):
    return {k: max(abs(x[k] - y[k]) / (1 + abs(x[k])) for x, y in zip(a, b) if k in x) for k in a[0]}


def main():
    out = HERE / "rloo"
    out.mkdir(exist_ok=True)
    runs = {}
    for name, options in RUNS.items():
        rollouts = answers_of(str(Path(sys.argv[1]).resolve()), config(options))
        curves, other = (train(rollouts, options, shaken) for shaken in (False, True))
        runs[name] = {"objective": options, "rollouts": rollouts, "shaken": apart(curves, other), "curves": curves}
        print(name, curves[0], curves[-1], runs[name]["shaken"], flush=True)
    versions = {m.__name__: m.__version__ for m in (torch, transformers, trl)}
    (out / "runs.json").write_text(json.dumps({"made_with": versions, "runs": runs}) + "\n")


main()
