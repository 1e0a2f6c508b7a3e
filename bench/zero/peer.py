#!/usr/bin/env python3
"""The PyTorch side of run.py: DDP or FSDP2 on CPUs over Gloo, one thread a rank. Rank 0 prints one JSON line.

    python -m torch.distributed.run --nproc-per-node N peer.py FOLDER --mode ddp|fsdp2 [--full] [--dtype bf16|f32] --steps K --batch B
"""
import argparse
import json
import resource
import statistics
import time
from pathlib import Path

import torch
import torch.distributed as dist
import transformers

parser = argparse.ArgumentParser()
parser.add_argument("folder", type=Path)
parser.add_argument("--mode", choices=("ddp", "fsdp2"))
parser.add_argument("--full", action="store_true")
parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
parser.add_argument("--steps", type=int)
parser.add_argument("--batch", type=int)
a = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
dtype = torch.bfloat16 if a.dtype == "bf16" else torch.float32
model = transformers.LlamaForCausalLM.from_pretrained(a.folder / "model", dtype=dtype, attn_implementation="sdpa")
model.config.use_cache = False
if not a.full:
    import peft
    lora = peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, lora, autocast_adapter_dtype=False)
if a.mode == "ddp":
    model = torch.nn.parallel.DistributedDataParallel(model)
else:
    from torch.distributed.fsdp import fully_shard
    mesh = dist.init_device_mesh("cpu", (world,))
    for layer in (model if a.full else model.base_model.model).model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, weight_decay=0)
rows = [json.loads(line)["input_ids"] for line in open(a.folder / "train.jsonl")]


def step(number):
    first = (number * world + rank) * a.batch  # ft's order: ranks take micro-batches in turns
    ids = torch.tensor(rows[first:first + a.batch])
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    total = loss.detach().double()
    dist.all_reduce(total)
    return float(total) / world


losses, times = [], []
for number in range(a.steps):
    dist.barrier()
    begun = time.perf_counter()
    losses.append(step(number))
    dist.barrier()
    times.append(time.perf_counter() - begun)
if rank == 0:
    tokens = world * a.batch * len(rows[0])
    print(json.dumps({"tokens_per_second": tokens / statistics.median(times[1:]), "losses": losses,
                      "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
                      "versions": f"torch {torch.__version__}, transformers {transformers.__version__}"}), flush=True)
dist.barrier()
dist.destroy_process_group()
