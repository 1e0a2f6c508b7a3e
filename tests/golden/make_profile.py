#!/usr/bin/env python3
"""Makes profile.json: the multiply-adds that DeepSpeed's FLOPs profiler counts in one forward pass of the tiny models,
for each Linear, and for each attention what it does beside its Linears (all pairs of tokens, seen or not)."""
import json, os
from pathlib import Path
os.environ.update(DS_ACCELERATOR="cpu", HF_HUB_OFFLINE="1")
import torch, transformers, deepspeed
from deepspeed.profiling.flops_profiler import FlopsProfiler
from deepspeed.profiling.flops_profiler.profiler import get_module_macs

HERE = Path(__file__).parent
SOURCE, TARGET = 12, 7


def counted(name, cls):
    model = cls.from_pretrained(HERE / "models" / name / "model", dtype=torch.float32, attn_implementation="eager").eval()
    inputs = {"input_ids": torch.arange(3, 3 + SOURCE)[None]}
    if name == "t5":
        inputs["labels"] = torch.arange(3, 3 + TARGET)[None]
    profiler = FlopsProfiler(model)
    profiler.start_profile()
    model(**inputs)
    macs = {}
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            macs[path] = get_module_macs(module)
        elif type(module).__name__ in ("LlamaAttention", "T5Attention"):
            linears = [m for m in module.modules() if isinstance(m, torch.nn.Linear)]
            macs[path] = get_module_macs(module) - sum(map(get_module_macs, linears))
    profiler.end_profile()
    return macs


golden = {"made_with": {"deepspeed": deepspeed.__version__, "transformers": transformers.__version__,
                        "torch": torch.__version__.split("+")[0]},
          "source": SOURCE, "target": TARGET,
          "llama": counted("llama", transformers.LlamaForCausalLM),
          "t5": counted("t5", transformers.T5ForConditionalGeneration)}
(HERE / "profile.json").write_text(json.dumps(golden, indent=1) + "\n")
