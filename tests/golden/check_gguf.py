#!/usr/bin/env python3
"""Reads what `ft export --to gguf` writes with the gguf package and with transformers, and writes gguf.txt.

    check_gguf.py FT        (a Python with requirements.txt and gguf)

For models and adapters of models/, in every type: names, shapes and bytes against the weights converted by the gguf package itself;
for F32 also the logits of the model that transformers loads from the file. For adapters: alpha / r B A against PEFT's own delta.
For tokenizers: tokens, scores and kinds against the sentencepiece package, tokens and merges against tokenizer.json.

T5s are made here, because GGUF's readers know one reach of relative positions only: 1.0 (scaled, tied), 1.1 with a head of its own,
mT5. Their output.weight has to be the head with the scale of the states before it."""
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import peft
import sentencepiece
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentencepiece import sentencepiece_model_pb2

HERE = Path(__file__).parent
MODELS = ["llama", "llama-gqa", "llama-biases-gelu", "llama-linear", "llama-llama3", "llama-yarn", "llama-dynamic", "mistral", "qwen2", "qwen3"]
MIXTURES = ["mixtral", "qwen2_moe", "qwen3_moe", "olmoe"]
T5S = ["t5", "t5-v11-head", "mt5"]
T5_ADAPTERS = ["lora-t5-v11", "lora-t5-save"]
ADAPTERS = ["lora", "lora-q-v", "lora-patterns-rslora", "lora-qwen2", "lora-qwen3-tied", "lora-mistral", "lora-save-norm"]
TYPES = {"float32": ("F32", 0), "float16": ("F16", 1), "bfloat16": ("BF16", 32), "q8_0": ("Q8_0", 7)}
ARCHITECTURES = {"llama": gguf.MODEL_ARCH.LLAMA, "mistral": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "qwen3": gguf.MODEL_ARCH.QWEN3,
                 "t5": gguf.MODEL_ARCH.T5, "mt5": gguf.MODEL_ARCH.T5}
lines = []


def say(text):
    print(text, flush=True)
    lines.append(text)


def ft(*words):
    return subprocess.run([sys.argv[1], "export", *map(str, words)], capture_output=True, text=True)


def permuted(name, w, config):
    """As llama.cpp's converter does for queries and keys of architecture llama."""
    heads = {"q": config.num_attention_heads, "k": getattr(config, "num_key_value_heads", None) or config.num_attention_heads}
    m = re.search(r"self_attn\.([qk])_proj\.", name)
    if config.model_type not in ("llama", "mistral", "mixtral") or not m:
        return w
    h = heads[m[1]]
    return w.reshape(h, 2, w.shape[0] // h // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def field(reader, name):
    return reader.fields[name].contents() if name in reader.fields else None


def same_bytes(t, w, dtype):
    """Type, shape and bytes of a tensor in a file are what the gguf package makes of the weight."""
    flat = w.ndim < 2 or t.name.endswith(("_norm.weight", "attn_rel_b.weight"))
    want = "F32" if flat else TYPES[dtype][0]
    if want == "Q8_0" and w.shape[-1] % 32:
        want = "F16"
    assert t.tensor_type.name == want, (t.name, t.tensor_type.name, want)
    expected = gguf.quants.quantize(w, getattr(gguf.GGMLQuantizationType, want))
    assert tuple(reversed(t.shape.tolist())) == w.shape, (t.name, t.shape, w.shape)
    assert np.array_equal(np.asarray(t.data).view(np.uint8).reshape(-1), expected.view(np.uint8).reshape(-1)), t.name


def check_model(name, folder, dtype, out):
    file = out / f"{name}-{dtype}.gguf"
    done = ft("--to", "gguf", "--from", folder, "--output", file, "--dtype", dtype)
    if done.returncode:
        return "refused: " + done.stderr.strip().split(": ", 1)[1]
    reader = gguf.GGUFReader(file)
    config = transformers.AutoConfig.from_pretrained(folder)
    arch = ARCHITECTURES[config.model_type]
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    weights = {k: v.float().numpy() for f in folder.glob("*.safetensors") for k, v in load_file(f).items() if not k.endswith("inv_freq")}
    if config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    got = {t.name: t for t in reader.tensors}
    for name_, w in weights.items():
        t = got.pop(names.get_name(name_, try_suffixes=(".weight", ".bias")))
        w = permuted(name_, w, config)
        same_bytes(t, w, dtype)
    extra = sorted(got)
    assert extra in ([], ["rope_freqs.weight"]), extra
    assert field(reader, "general.file_type") == TYPES[dtype][1]
    said = f"{len(weights)} tensors, the bytes of the gguf package" + (", rope_freqs" if extra else "")
    if dtype == "float32" and name not in ("llama-llama3", "llama-yarn", "llama-linear", "qwen3"):   # positions and key_length, which transformers does not read
        theirs = transformers.AutoModelForCausalLM.from_pretrained(out, gguf_file=file.name, dtype=torch.float32).eval()
        ours = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        ids = torch.arange(3, 15)[None]
        with torch.no_grad():
            difference = (theirs(ids).logits - ours(ids).logits).abs().max().item()
        assert difference < 1e-5, difference
        said += ", the logits of transformers from the file"
    return said


def make_mixture(name, out):
    """A random model folder, in which every layer has experts."""
    torch.manual_seed(4)
    sizes = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, num_experts_per_tok=2)
    if name == "mixtral":
        model = transformers.MixtralForCausalLM(transformers.MixtralConfig(num_local_experts=12, **sizes))
    elif name == "olmoe":
        model = transformers.OlmoeForCausalLM(transformers.OlmoeConfig(**sizes | dict(num_experts=12, pad_token_id=0, eos_token_id=2, num_key_value_heads=2)))
    elif name == "qwen2_moe":
        model = transformers.Qwen2MoeForCausalLM(transformers.Qwen2MoeConfig(num_experts=12, moe_intermediate_size=16, shared_expert_intermediate_size=24, **sizes))
    else:
        model = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(num_experts=12, moe_intermediate_size=16, head_dim=16, norm_topk_prob=True, **sizes))
    folder = out / ("folder-" + name)
    model.save_pretrained(folder)
    return folder


def check_mixture(name, dtype, out):
    folder = make_mixture(name, out)
    file = out / f"{name}-{dtype}.gguf"
    done = ft("--to", "gguf", "--from", folder, "--output", file, "--dtype", dtype)
    assert done.returncode == 0, done.stderr
    reader, config = gguf.GGUFReader(file), transformers.AutoConfig.from_pretrained(folder)
    architecture = {"mixtral": "llama"}.get(name, name.replace("_", ""))
    arch = next(a for a, text in gguf.MODEL_ARCH_NAMES.items() if text == architecture)
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    weights = {k: v.float().numpy() for k, v in load_file(folder / "model.safetensors").items()}
    stacked = {}                                      # as llama.cpp's converter merges experts
    for key, w in weights.items():
        m = re.fullmatch(r"model\.layers\.(\d+)\.(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)\.weight", key)
        whole = key if not m else f"layers.{m[1]}.feed_forward.experts.{m[3]}.weight" if name == "mixtral" else f"model.layers.{m[1]}.mlp.experts.{m[3]}.weight"
        stacked.setdefault(whole, {})[int(m[2]) if m else -1] = w
    got = {t.name: t for t in reader.tensors}
    for key, parts in stacked.items():
        w = parts[-1] if -1 in parts else np.stack([parts[e] for e in range(len(parts))])
        t = got.pop(names.get_name(key, try_suffixes=(".weight", ".bias")))
        if t.name.endswith("ffn_gate_inp_shexp.weight"):
            w = w[0]
        if t.name.endswith("ffn_gate_inp.weight"):
            assert t.tensor_type.name == "F32" and np.array_equal(np.asarray(t.data), w), t.name
            continue
        same_bytes(t, permuted(key, w, config), dtype)
    assert not got, sorted(got)
    key = lambda k: field(reader, f"{architecture}.{k}")
    assert (key("expert_count"), key("expert_used_count")) == (12, 2)
    assert key("expert_feed_forward_length") == (16 if name.startswith("qwen") else None)
    said = f"{len(stacked)} tensors, the bytes of the gguf package"
    if dtype == "float32" and name.startswith("qwen"):
        theirs = transformers.AutoModelForCausalLM.from_pretrained(out, gguf_file=file.name, dtype=torch.float32, experts_implementation="eager").eval()
        ours = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, experts_implementation="eager").eval()
        ids = torch.arange(3, 15)[None]
        with torch.no_grad():
            difference = (theirs(ids).logits - ours(ids).logits).abs().max().item()
        assert difference < 1e-5, difference
        said += ", the logits of transformers from the file"
    return said


def make_t5(name, out):
    """A random model folder, and its head as GGUF's readers use it."""
    torch.manual_seed(3)
    sizes = dict(vocab_size=61, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_decoder_layers=2 if name == "mt5" else 1, num_heads=3,
                 relative_attention_num_buckets=8, decoder_start_token_id=0)
    if name == "mt5":
        model = transformers.MT5ForConditionalGeneration(transformers.MT5Config(feed_forward_proj="gated-gelu", **sizes))
    else:
        scaled = name == "t5"
        model = transformers.T5ForConditionalGeneration(transformers.T5Config(
            feed_forward_proj="relu" if scaled else "gated-gelu", tie_word_embeddings=True if scaled else False, **sizes))
    folder = out / ("folder-" + name)
    model.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    head = weights["shared.weight"] * (32 ** -0.5 if name == "t5" else 1)
    if name.endswith("-head"):
        weights["lm_head.weight"] = head = torch.randn(61, 32)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder, model.eval(), head.detach()


def check_t5(name, dtype, out):
    folder, model, head = make_t5(name, out)
    file = out / f"{name}-{dtype}.gguf"
    done = ft("--to", "gguf", "--from", folder, "--output", file, "--dtype", dtype)
    assert done.returncode == 0, done.stderr
    reader, config = gguf.GGUFReader(file), model.config
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.T5, max(config.num_layers, config.num_decoder_layers))
    weights = {k: v.float().numpy() for k, v in load_file(folder / "model.safetensors").items() if k != "lm_head.weight"}
    got = {t.name: t for t in reader.tensors}
    for key, w in weights.items():
        same_bytes(got.pop(names.get_name(key, try_suffixes=(".weight",))), w, dtype)
    same_bytes(got.pop("output.weight"), head.numpy(), dtype)
    assert not got, sorted(got)
    key = lambda k: field(reader, "t5." + k)
    assert (key("block_count"), key("decoder_block_count")) == (config.num_layers, config.num_decoder_layers)
    assert (key("embedding_length"), key("feed_forward_length"), key("attention.head_count"), key("attention.key_length"), key("attention.value_length"),
            key("attention.relative_buckets_count"), key("decoder_start_token_id"), key("vocab_size"), key("context_length")) == (32, 64, 3, 16, 16, 8, 0, 61, 512)
    assert abs(key("attention.layer_norm_rms_epsilon") - 1e-6) < 1e-12 and field(reader, "general.file_type") == TYPES[dtype][1]
    said = f"{len(weights) + 1} tensors, the bytes of the gguf package, output.weight scaled" if name == "t5" else f"{len(weights) + 1} tensors, the bytes of the gguf package"
    if dtype == "float32" and name == "mt5":      # what transformers reads of t5 files is gated, with as many blocks on either side
        theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(out, gguf_file=file.name, dtype=torch.float32).eval()
        ids, answer = torch.arange(3, 15)[None], torch.arange(20, 26)[None]
        for layer in theirs.modules():            # it takes the first T5's activation for all
            if hasattr(layer, "wi_0"):
                layer.act = transformers.activations.ACT2FN["gelu_new"]
        with torch.no_grad():
            states = model(ids, decoder_input_ids=answer, output_hidden_states=True).decoder_hidden_states[-1]
            difference = (theirs(ids, decoder_input_ids=answer).logits - states @ head.T).abs().max().item()
        assert difference < 1e-4, difference
        said += ", the logits of transformers from the file"
    return said


def check_t5_tokenizer(out):
    folder, file = out / "t5-tokenizer", out / "t5-tokenizer.gguf"
    shutil.copytree(make_t5("t5", out)[0], folder)
    source = HERE.parent / "data" / "tokenizers" / "t5-model"
    raw = (source / "spiece.model").read_bytes()
    sp = sentencepiece.SentencePieceProcessor(model_proto=raw)
    config = json.loads((folder / "config.json").read_text()) | {"vocab_size": len(sp) + 12}
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(folder / "model.safetensors")
    weights["shared.weight"] = torch.randn(len(sp) + 12, 32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    for name in ("spiece.model", "tokenizer_config.json"):
        shutil.copy(source / name, folder)
    done = ft("--to", "gguf", "--from", folder, "--output", file)
    assert done.returncode == 0, done.stderr
    reader = gguf.GGUFReader(file)
    key = lambda k: field(reader, "tokenizer.ggml." + k)
    normalizer = sentencepiece_model_pb2.ModelProto.FromString(raw).normalizer_spec
    kind = lambda i: 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 5 if sp.is_unused(i) else 6 if sp.is_byte(i) else 1
    assert key("model") == "t5" and key("tokens")[: len(sp)] == [sp.id_to_piece(i) for i in range(len(sp))]
    assert np.allclose(key("scores")[: len(sp)], [sp.get_score(i) for i in range(len(sp))])
    assert key("token_type")[: len(sp)] == [kind(i) for i in range(len(sp))]
    assert key("tokens")[len(sp):len(sp) + 5] == [f"<extra_id_{i}>" for i in reversed(range(5))] and len(key("tokens")) == len(sp) + 12
    assert bytes(key("precompiled_charsmap")) == normalizer.precompiled_charsmap
    assert (key("add_space_prefix"), key("remove_extra_whitespaces")) == (normalizer.add_dummy_prefix, normalizer.remove_extra_whitespaces)
    assert (key("add_bos_token"), key("add_eos_token"), key("eos_token_id"), key("unknown_token_id"), key("padding_token_id")) == (False, True, 1, 2, 0)
    return f"{len(sp)} pieces with their scores and kinds, extra ids, the table of normalizations"


def check_adapter(name, out):
    file, folder = out / f"{name}.gguf", HERE / "models" / name
    case = json.loads((folder / "case.json").read_text())
    where = folder / case["model"]
    if name in T5_ADAPTERS:
        where = out / f"base-{name}"
        shutil.copytree(folder / case["model"], where)
        config = json.loads((where / "config.json").read_text()) | {"relative_attention_max_distance": 128}
        (where / "config.json").write_text(json.dumps(config))
    run = out / name                                     # as a run's folder: the adapter, and where its base lies
    shutil.copytree(folder / "adapter", run)
    (run / "run.json").write_text(json.dumps({"model": {"model_name_or_path": str(where.resolve())}}))
    done = ft("--to", "gguf-lora", "--from", run, "--output", file)
    if done.returncode:
        return "refused: " + done.stderr.strip().split(": ", 1)[1]
    reader = gguf.GGUFReader(file)
    auto = transformers.AutoModelForSeq2SeqLM if name in T5_ADAPTERS else transformers.AutoModelForCausalLM
    base = auto.from_pretrained(where, dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(base, folder / "adapter")
    config = base.config
    arch = ARCHITECTURES[config.model_type]
    names = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    alpha = field(reader, "adapter.lora.alpha")
    got = {t.name: np.asarray(t.data) for t in reader.tensors}
    count = 0
    for module, layer in model.base_model.model.named_modules():
        if not isinstance(layer, peft.tuners.lora.Linear):
            continue
        key = names.get_name(module + ".weight", try_suffixes=(".weight",))
        a, b = got.pop(key + ".lora_a"), got.pop(key + ".lora_b")
        want = permuted(module + ".", layer.get_delta_weight("default").detach().numpy(), config)
        assert np.allclose(alpha / a.shape[0] * b @ a, want, atol=1e-6, rtol=1e-5), module
        count += 1
    assert not got, sorted(got)
    assert field(reader, "general.type") == "adapter" and field(reader, "adapter.type") == "lora"
    return f"{count} pairs, alpha / r B A is PEFT's delta"


def check_tokenizer(out):
    folder, file = HERE.parent.parent / "configs" / "demo" / "base", out / "demo.gguf"
    assert ft("--to", "gguf", "--from", folder, "--output", file).returncode == 0
    reader = gguf.GGUFReader(file)
    sp = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    kind = lambda i: 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 5 if sp.is_unused(i) else 6 if sp.is_byte(i) else 1
    assert field(reader, "tokenizer.ggml.tokens") == [sp.id_to_piece(i) for i in range(len(sp))]
    assert np.allclose(field(reader, "tokenizer.ggml.scores"), [sp.get_score(i) for i in range(len(sp))])
    assert field(reader, "tokenizer.ggml.token_type") == [kind(i) for i in range(len(sp))]
    assert (field(reader, "tokenizer.ggml.bos_token_id"), field(reader, "tokenizer.ggml.eos_token_id")) == (1, 2)
    return f"{len(sp)} pieces with their scores and kinds"


def check_bpe(out):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    results = []
    for name, regex in {"gpt-2": None, "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"}.items():
        from tokenizers import Regex
        t = Tokenizer(models.BPE())
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if regex is None else pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(regex), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        t.decoder = decoders.ByteLevel()
        words = ["abba cab bag", "a bad cab", "dab a bag"] * 3
        t.train_from_iterator(words, trainers.BpeTrainer(vocab_size=40, special_tokens=["<|end|>"], initial_alphabet=list("abcdefg")))
        folder = out / name
        shutil.copytree(HERE / "models" / "qwen2" / "model", folder)
        transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|end|>").save_pretrained(folder)
        done = ft("--to", "gguf", "--from", folder, "--output", out / f"{name}.gguf")
        assert done.returncode == 0, done.stderr
        reader = gguf.GGUFReader(out / f"{name}.gguf")
        stored = json.loads((folder / "tokenizer.json").read_text())
        merges = [m if isinstance(m, str) else " ".join(m) for m in stored["model"]["merges"]]
        tokens = field(reader, "tokenizer.ggml.tokens")
        assert tokens[: t.get_vocab_size()] == [t.id_to_token(i) for i in range(t.get_vocab_size())]
        assert field(reader, "tokenizer.ggml.merges") == merges and field(reader, "tokenizer.ggml.pre") == name
        assert field(reader, "tokenizer.ggml.token_type")[0] == 3 and field(reader, "tokenizer.ggml.eos_token_id") == 0
        results.append(f"{name}: {t.get_vocab_size()} tokens, {len(merges)} merges")
    return "; ".join(results)


with tempfile.TemporaryDirectory() as name:
    out = Path(name)
    versions = ", ".join(f"{m.__name__} {v}" for m, v in [(transformers, transformers.__version__), (peft, peft.__version__)])
    from importlib.metadata import version
    say(f"checked with gguf {version('gguf')}, {versions}")
    for m in MODELS:
        case = json.loads((HERE / "models" / m / "case.json").read_text())
        for dtype in TYPES:
            say(f"{m:22} {dtype:9} {check_model(m, HERE / 'models' / m / case['model'], dtype, out)}")
    for dtype in TYPES:
        say(f"{'the demo (192 wide)':22} {dtype:9} {check_model('demo', HERE.parent.parent / 'configs' / 'demo' / 'base', dtype, out)}")
    for m in MIXTURES:
        for dtype in TYPES:
            say(f"{m:22} {dtype:9} {check_mixture(m, dtype, out)}")
    for m in T5S:
        for dtype in TYPES:
            say(f"{m:22} {dtype:9} {check_t5(m, dtype, out)}")
    for m in ADAPTERS + T5_ADAPTERS:
        say(f"{m:22} gguf-lora {check_adapter(m, out)}")
    say(f"{'SentencePiece':22}           {check_tokenizer(out)}")
    say(f"{'T5, unigram':22}           {check_t5_tokenizer(out)}")
    say(f"{'byte-level BPE':22}           {check_bpe(out)}")
(HERE / "gguf.txt").write_text("\n".join(lines) + "\n")
