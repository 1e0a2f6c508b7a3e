#!/usr/bin/env python3
"""What run.py measures ft against: transformers' greedy generate. Prints one JSON object.

    peer.py MODEL INPUT.jsonl --dtype float32|bfloat16 --short N --long N
"""
import argparse
import json
import resource
import time
from pathlib import Path

import torch
import transformers


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("input", type=Path)
    a.add_argument("--dtype", default="float32")
    a.add_argument("--short", type=int, required=True)
    a.add_argument("--long", type=int, required=True)
    a = a.parse_args()
    model = transformers.AutoModelForCausalLM.from_pretrained(a.model, dtype=getattr(torch, a.dtype)).eval()
    rows = [json.loads(line)["input_ids"] for line in a.input.read_text().splitlines()]     # all of one length
    ids = torch.tensor(rows)
    def run(n):
        begun, cpu = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
        with torch.inference_mode():
            got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=n, min_new_tokens=n, do_sample=False, pad_token_id=0)
        now = resource.getrusage(resource.RUSAGE_SELF)
        return got[:, ids.shape[1]:].tolist(), time.monotonic() - begun, now.ru_utime - cpu.ru_utime

    run(2)                                                                                   # libraries warm up
    _, short, short_cpu = run(a.short)
    tokens, long, long_cpu = run(a.long)
    out = {"seconds": long - short, "cpu_seconds": long_cpu - short_cpu, "tokens": tokens, "threads": torch.get_num_threads(),
           "torch": torch.__version__, "transformers": transformers.__version__,
           "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}
    print(json.dumps(out))


main()
