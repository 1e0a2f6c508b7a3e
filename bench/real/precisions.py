"""The same LoRA run in five precisions: losses step by step, held-out loss, and answers. run.py calls it."""
import json
import statistics

import parts
from kit import write_rows

KINDS = {
    "f32": {},
    "bf16": {"training": {"bf16": True}},
    "FP8 base": {"model": {"frozen_dtype": "fp8"}, "training": {"bf16": True}},
    "FP8 products": {"model": {"frozen_dtype": "fp8"}, "training": {"bf16": True, "fp8": True}},
    "NF4": {"quantization": {"load_in_4bit": True}, "training": {"bf16": True}},
}
BOUNDS = {"FP8 base": 0.005, "FP8 products": 0.01}   # how far above bf16's held-out loss is near enough, as a share of it
BATCH, SPAN = 2, 50                                  # conversations a step; steps whose mean loss is one figure of the curve


def settings_of(kind, a, there, model):
    """run.py's LoRA run with the settings of a kind, and the held-out problems as its evaluation data."""
    out = "precision-" + kind.lower().replace(" ", "-")
    settings = parts.config(model, there, a.steps, BATCH, parts.RATE, "precisions.jsonl", out)
    for section, values in KINDS[kind].items():
        settings.setdefault(section, {}).update(values)
    settings["data"]["eval_datasets"] = [{"path": str(there / "held_out.jsonl")}]
    return settings


def precisions(kit, a, say):
    """The model is the folder that transformers makes of the GGUF file. Adapters answer with the model in float32."""
    name, there, _ = parts.start(kit, a)
    model, held_out = there / "theirs", a.held_out_rows[:a.problems]
    write_rows(there / "precisions.jsonl", [parts.conversation(r) for r in a.train_rows[:a.steps * BATCH]])
    write_rows(there / "held_out.jsonl", [parts.conversation(r) for r in held_out])
    held_out_loss = {}
    for kind in KINDS:
        settings = settings_of(kind, a, there, model)
        losses = [r["loss"] for r in parts.steps_of(kit.train_ft(settings))]
        adapter = settings["training"]["output_dir"]
        run = ("eval", "--config", f"{adapter}.json", "--adapter", adapter, "--json")
        held_out_loss[kind] = json.loads(kit.run_ft(*run))["eval_loss"]
        right, form = parts.marks(kit, there, held_out, "--model", model, "--adapter", adapter)
        say(f"{name} {kind:12} mean loss of {SPAN} steps each " + " ".join(f"{statistics.mean(losses[i:i + SPAN]):.4f}" for i in range(0, len(losses), SPAN))
            + f"; held-out loss {held_out_loss[kind]:.4f} ({held_out_loss[kind] / held_out_loss[next(iter(KINDS))] - 1:+.2%} of f32's); "
            f"of {len(held_out)} answers {form} in GSM8K's form, {right} right")
    return all(held_out_loss[kind] / held_out_loss["bf16"] - 1 <= most for kind, most in BOUNDS.items())
