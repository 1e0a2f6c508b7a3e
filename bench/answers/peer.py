#!/usr/bin/env python3
"""Decodes prompts with llama.cpp (llama-cpp-python), greedily and all in one batch, and prints JSON: seconds of the steps after the first
`short` until `long`, the processors' seconds of the same, the tokens, the version. See run.py."""
import argparse
import json
import resource
import time

import llama_cpp
import numpy


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("model")
    p.add_argument("input")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--short", type=int, required=True)
    p.add_argument("--long", type=int, required=True)
    a = p.parse_args()
    prompts = [json.loads(line)["input_ids"] for line in open(a.input)]
    longest = max(map(len, prompts)) + a.long

    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(a.model.encode(), llama_cpp.llama_model_default_params())
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = len(prompts) * -(-longest // 256) * 256
    settings.kv_unified = False
    settings.n_batch = settings.n_ubatch = max(512, sum(map(len, prompts)))
    settings.n_seq_max = len(prompts)
    settings.n_threads = settings.n_threads_batch = a.threads
    context = llama_cpp.llama_init_from_model(model, settings)
    words = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    batch = llama_cpp.llama_batch_init(settings.n_batch, 0, 1)

    def step(rows):
        """rows: (token, position, sequence, whether its logits are wanted); the likeliest tokens of those that are"""
        for i, (token, at, sequence, wanted) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, at, 1, wanted
            batch.seq_id[i][0] = sequence
        batch.n_tokens = len(rows)
        if llama_cpp.llama_decode(context, batch) != 0:
            raise SystemExit("llama_decode failed")
        logits = lambda i: numpy.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, i), (words,))
        return [int(logits(i).argmax()) for i, row in enumerate(rows) if row[3]]

    last = step([(t, at, s, at == len(x) - 1) for s, x in enumerate(prompts) for at, t in enumerate(x)])
    answers = [[t] for t in last]
    for n in range(1, a.long):
        if n == a.short:
            begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
        last = step([(t, len(prompts[s]) + n - 1, s, True) for s, t in enumerate(last)])
        for answer, t in zip(answers, last):
            answer.append(t)
    print(json.dumps({"seconds": time.monotonic() - begun, "cpu_seconds": resource.getrusage(resource.RUSAGE_SELF).ru_utime - before,
                      "tokens": answers, "llama_cpp_python": llama_cpp.__version__, "threads": a.threads}))


if __name__ == "__main__":
    main()
