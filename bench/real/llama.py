#!/usr/bin/env python3
"""The side of run.py that llama.cpp has: for each text its tokens, their log probabilities, and NEW greedy tokens.

    llama.py GGUF PROMPTS NEW [LIBRARY]

Needs numpy, and llama-cpp-python or llama-cpp-py-sync with cffi. The latter has llama.cpp compiled, for glibc 2.38; on older systems LIBRARY
names another file that has llama.cpp's functions, such as that of the package xllamacpp, of about the same month. Keys and values are in
float32. Prints one JSON object a line.
"""
import json
import sys

import numpy

LIBRARY = next((argument for argument in sys.argv[1:] if ".so" in argument.split("/")[-1]), None)
try:
    import llama_cpp as lib
    new, void, kept = (lambda kind, size: (kind * size)()), None, lib.llama_log_callback(lambda *_: None)
    token, array, VERSION = lib.llama_token, numpy.ctypeslib.as_array, f"llama-cpp-python {lib.__version__}"
except ImportError:
    import llama_cpp_py_sync
    from llama_cpp_py_sync._cffi_bindings import get_ffi, get_lib
    ffi, token = get_ffi(), "llama_token"
    lib = ffi.dlopen(LIBRARY) if LIBRARY else get_lib()
    new, void, kept = (lambda kind, size: ffi.new(f"{kind}[]", size)), ffi.NULL, ffi.callback("ggml_log_callback", lambda *_: None)
    array = lambda pointer, shape: numpy.frombuffer(ffi.buffer(pointer, 4 * shape[0]), dtype=numpy.float32)
    VERSION = f"llama.cpp in {LIBRARY.split('/')[-1]}" if LIBRARY else f"llama-cpp-py-sync {llama_cpp_py_sync.__version__}"


class Model:
    def __init__(self, file):
        lib.llama_backend_init()
        lib.llama_log_set(kept, void)
        self.model = lib.llama_model_load_from_file(file.encode(), lib.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot read {file}")
        self.adapters = {}
        self.vocabulary = lib.llama_model_get_vocab(self.model)
        self.words = lib.llama_vocab_n_tokens(self.vocabulary)

    def tokens(self, text):
        """With the tokens that the model wants before a text, and special tokens by their names."""
        raw = text.encode()
        room = new(token, len(raw) + 8)
        count = lib.llama_tokenize(self.vocabulary, raw, len(raw), room, len(raw) + 8, True, True)
        return list(room)[:count]

    def context(self):
        settings = lib.llama_context_default_params()
        settings.n_ctx, settings.type_k, settings.type_v, settings.flash_attn_type = 1024, 0, 0, 0  # float32; no flash attention
        settings.n_threads = settings.n_threads_batch = 1
        return lib.llama_init_from_model(self.model, settings)

    def adapt(self, context, file):
        """Adds a GGUF-LoRA file to what the context computes."""
        if file not in self.adapters:
            self.adapters[file] = lib.llama_adapter_lora_init(self.model, file.encode())
            if not self.adapters[file]:
                raise SystemExit(f"llama.cpp cannot read {file}")
        if lib.llama_set_adapters_lora(context, [self.adapters[file]], 1, [1.0]) != 0:
            raise SystemExit("llama_set_adapters_lora failed")

    def begin(self, context, prompt):
        """The tokens that are to be decoded first: the prompt, or the decoder's start once an encoder has read the prompt."""
        if not lib.llama_model_has_encoder(self.model):
            return prompt
        held = new(token, len(prompt))
        held[0:len(prompt)] = prompt
        if lib.llama_encode(context, lib.llama_batch_get_one(held, len(prompt))) != 0:
            raise SystemExit("llama_encode failed")
        return [lib.llama_model_decoder_start_token(self.model)]

    def logits(self, context, ids):
        """Of the token after the last of `ids`."""
        held = new(token, len(ids))
        held[0:len(ids)] = ids
        if lib.llama_decode(context, lib.llama_batch_get_one(held, len(ids))) != 0:
            raise SystemExit("llama_decode failed")
        return array(lib.llama_get_logits_ith(context, -1), (self.words,)).astype(numpy.float64)


def log_softmax(x):
    return x - x.max() - numpy.log(numpy.exp(x - x.max()).sum())


def main():
    model, new_tokens = Model(sys.argv[1]), int(sys.argv[3])
    for text in map(json.loads, open(sys.argv[2])):
        ids, context = model.tokens(text), model.context()
        rows = [model.logits(context, [i]) for i in ids]
        answer = [int(rows[-1].argmax())]
        while len(answer) < new_tokens and not lib.llama_vocab_is_eog(model.vocabulary, answer[-1]):
            answer.append(int(model.logits(context, answer[-1:]).argmax()))
        lib.llama_free(context)
        print(json.dumps({"ids": ids, "logprobs": [float(log_softmax(r)[i]) for r, i in zip(rows, ids[1:])], "answer": answer,
                          "version": VERSION}), flush=True)


if __name__ == "__main__":
    main()
