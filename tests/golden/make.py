#!/usr/bin/env python3
"""Makes the golden files beside it with PyTorch, transformers and PEFT (see README.md for what they hold).

    make.py [--only REGEX] [models | steps]...

Everything is a function of cases.json and fixed seeds. Runs on a CPU in about two minutes; needs requirements.txt.
"""
import argparse
import re
from pathlib import Path

import model_cases
import step_cases

HERE = Path(__file__).resolve().parent


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("what", nargs="*", default=["models", "steps"])
    a.add_argument("--only", default=".", help="regular expression: names of the model cases to make")
    a = a.parse_args()
    if "models" in a.what:
        model_cases.make_all(HERE, re.compile(a.only))
    if "steps" in a.what:
        step_cases.make_all(HERE)
    size = sum(f.stat().st_size for f in HERE.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    print(f"whole folder: {size / 1e6:.2f} MB")


main()
