"""DeepSpeed's side of beside_deepspeed.py, for an interpreter with torch, transformers, peft and deepspeed.

    peer.py MODEL ROWS FILES STEPS     (FILES: a folder for the parameters' files; "" keeps them in memory)

ZeRO stage 3 of one process, bf16, recomputation, LoRA r 16 on all linears. Prints a JSON object: losses, seconds of each step.
"""
import json
import os
import sys
import time

os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29533", HF_HUB_OFFLINE="1")
import deepspeed  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.integrations import HfDeepSpeedConfig  # noqa: E402


def main(model, rows, files, steps):
    zero = {"stage": 3, "stage3_max_live_parameters": 10**8, "stage3_prefetch_bucket_size": 5 * 10**7}
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": zero,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}}, "zero_force_ds_cpu_optimizer": False}
    if files:
        zero["offload_param"] = {"device": "nvme", "nvme_path": files, "buffer_count": 20, "buffer_size": 7 * 10**7}
        config["aio"] = {"block_size": 1 << 20, "queue_depth": 8, "single_submit": False, "overlap_events": True}
    deepspeed.init_distributed(dist_backend="gloo")
    _shards = HfDeepSpeedConfig(config)  # while it lives, models are sharded as they are loaded
    m = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16)
    m.gradient_checkpointing_enable()
    m.enable_input_require_grads()
    m = peft.get_peft_model(m, peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
    engine, *_ = deepspeed.initialize(model=m, model_parameters=[p for p in m.parameters() if p.requires_grad], config=config)
    losses, seconds = [], []
    with open(rows) as lines:
        for _, line in zip(range(steps), lines):
            ids = torch.tensor([json.loads(line)["input_ids"]])
            begin = time.perf_counter()
            loss = engine(input_ids=ids, labels=ids).loss
            engine.backward(loss)
            engine.step()
            seconds.append(time.perf_counter() - begin)
            losses.append(float(loss))
    print(json.dumps({"losses": losses, "seconds": seconds, "deepspeed": deepspeed.__version__, "torch": torch.__version__}))


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
