#!/usr/bin/env python3
"""Makes data_efficiency.json: what DeepSpeed's CurriculumScheduler says of steps 1, 2, ..., its RandomLTDScheduler of
the same steps, which it counts from 0, and which samples its DeepSpeedDataSampler has found easy enough by each step,
from the files that its DataAnalyzer makes of the samples. Vocabulary rarity is counted as Megatron-DeepSpeed does.

    make_data_efficiency.py FILE

Needs DeepSpeed (0.19.8) and nothing of a GPU."""
import json
import os
import sys
import tempfile
import types

os.environ.update(DS_ACCELERATOR="cpu")
import deepspeed
import numpy as np
import torch
from deepspeed.runtime.data_pipeline.curriculum_scheduler import CurriculumScheduler
from deepspeed.runtime.data_pipeline.data_routing.scheduler import RandomLTDScheduler
from deepspeed.runtime.data_pipeline.data_sampling import data_analyzer, data_sampler
from deepspeed.runtime.data_pipeline.data_sampling.data_analyzer import DataAnalyzer

STEPS = 60


def curriculum(low, high, kind, **config):
    c = {"min_difficulty": low, "max_difficulty": high, "schedule_type": kind, "schedule_config": config}
    s = CurriculumScheduler(json.loads(json.dumps(c)))
    return {**c, "difficulties": [s.update_difficulty(n) for n in range(1, STEPS + 1)]}


def random_ltd(low, high, steps, unit):
    schedule = {"min_value": low, "max_value": high, "schedule_type": "fixed_linear",
                "schedule_config": {"require_steps": steps, "seq_per_step": unit}}
    c = {"total_layer_num": 4, "random_ltd_layer_num": 2, "random_ltd_schedule": schedule, "global_batch_size": 1,
         "layer_token_lr_schedule": {"enabled": False}}
    s, kept = RandomLTDScheduler(json.loads(json.dumps(c))), []
    for n in range(STEPS):
        s.update_seq(n)
        kept.append(s.get_current_seq())
    return {**schedule, "kept": kept}


def samples():
    """37 of 3 to 20 tokens; small ids are frequent."""
    rng = np.random.default_rng(5)
    return [np.minimum(rng.geometric(0.15, rng.integers(3, 21)), 40).tolist() for _ in range(37)]


def metrics(data):
    counts = np.bincount(np.concatenate(data))
    rarity = -np.log(np.maximum(counts, 1) / sum(counts))
    return {"seqlen": [len(s) for s in data], "vocabularyrarity": [int(rarity[s].sum()) for s in data]}


class Rows(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.tensor(i)


def analyzed(values, folder):
    """DataAnalyzer's files of each metric."""
    functions = [lambda rows, v=v: torch.tensor(v)[rows] for v in values.values()]
    DataAnalyzer(Rows(len(next(iter(values.values())))), batch_size=4, metric_names=list(values), metric_functions=functions,
                 metric_types=["single_value_per_sample"] * len(values), metric_dtypes=[torch.int64] * len(values),
                 save_path=folder).run_map_reduce()


def chosen(given, values):
    """The samples that are in a cluster from each step on where there are new ones: [[step, samples], ...]."""
    with tempfile.TemporaryDirectory() as folder:
        data_analyzer.dist = data_sampler.dist = types.SimpleNamespace(barrier=lambda **_: None, broadcast=lambda *_, **__: None)
        analyzed(values, folder)
        paths = lambda m: {"index_to_sample_path": f"{folder}/{m}/{m}_index_to_sample",
                           "index_to_metric_path": f"{folder}/{m}/{m}_index_to_metric"}
        config = {"seed": 1234, "data_sampling": {"num_epochs": 1000, "curriculum_learning": {
            "enabled": True, "data_cluster_path": f"{folder}/clusters",
            "curriculum_metrics": {m: {**json.loads(json.dumps(c)), **paths(m)} for m, c in given.items()}}}}
        s = data_sampler.DeepSpeedDataSampler(config, 37, 4, 0, 1, None, 1, 0)
        now, seen = [], 0
        for step in range(1, STEPS + 1):
            s.get_next_global_batch()
            if len(s.data_clusters) > seen:
                now.append([step, sorted(int(i) for c in s.data_clusters for i in c[0])])
                seen = len(s.data_clusters)
    return {"metrics": given, "samples": now}


def choices(values):
    metric = lambda kind, clustering, *schedule, **more: {"difficulty_type": kind, "clustering_type": clustering, **dict(zip(
        ["min_difficulty", "max_difficulty"], schedule)), "schedule_type": more.pop("type", "fixed_linear"), "schedule_config": more}
    length = metric("value", "schedule_based", 8, 20, total_curriculum_step=20, difficulty_step=2)
    short = metric("value", "schedule_based", 6, 15, total_curriculum_step=9, difficulty_step=3)
    cut = metric("value", "single_cluster", 4, 20, total_curriculum_step=30, difficulty_step=4)
    rarity = metric("value", "schedule_based", 20, 70, total_curriculum_step=30, difficulty_step=10, root_degree=2, type="fixed_root")
    tenths = metric("percentile", "schedule_based", 1, 10, total_curriculum_step=25, difficulty_step=1)
    hundredths = metric("percentile", "schedule_based", 3, 30, difficulty=[3, 11, 30], max_step=[4, 9], type="fixed_discrete")
    cases = [{"seqlen": length}, {"seqlen": short}, {"vocabularyrarity": rarity}, {"vocabularyrarity": tenths}, {"seqlen": hundredths},
             {"seqlen": length, "vocabularyrarity": tenths}, {"seqlen": hundredths, "vocabularyrarity": rarity},
             {"seqlen": cut, "vocabularyrarity": rarity}]
    return [chosen(c, values) for c in cases]


def main():
    linear = [(8, 64, 8, 8), (8, 64, 40, 8), (8, 64, 50, 16), (10, 100, 37, 7), (20, 20, 9, 8), (1, 1000, 59, 1), (12, 50, 30, 8)]
    root = [(8, 64, 10, 4, 2), (16, 48, 9, 8, 3), (8, 100, 50, 8, 1), (3, 77, 41, 5, 2.5), (8, 64, 45, 8, 0.5)]
    discrete = [([10, 24, 64], [3, 7], 10, 64), ([1, 2, 3], [5, 10], 1, 3), ([64, 8, 64], [3, 7], 8, 64),
                ([8, 200, 16, 64], [3, 7, 9], 8, 64), ([8, 16], [1], 16, 16)]
    made = [curriculum(a, b, "fixed_linear", total_curriculum_step=t, difficulty_step=u) for a, b, t, u in linear]
    made += [curriculum(a, b, "fixed_root", total_curriculum_step=t, difficulty_step=u, root_degree=d) for a, b, t, u, d in root]
    made += [curriculum(a, b, "fixed_discrete", difficulty=d, max_step=m) for d, m, a, b in discrete]
    kept = [random_ltd(*c) for c in [(16, 64, 8, 8), (64, 64, 8, 8), (20, 60, 30, 16), (128, 512, 55, 16), (10, 33, 40, 3)]]
    rows = lambda of: ",\n ".join(json.dumps(r) for r in of)
    data = samples()
    values = metrics(data)
    with open(sys.argv[1], "w") as f:
        f.write(f'{{"made_with": {{"deepspeed": "{deepspeed.__version__}"}},\n"curriculum": [\n {rows(made)}],\n"random_ltd": [\n {rows(kept)}],'
                f'\n"samples": {json.dumps(data)},\n"values": {json.dumps(values)},\n"choices": [\n {rows(choices(values))}]}}\n')


main()
