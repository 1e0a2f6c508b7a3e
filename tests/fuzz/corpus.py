#!/usr/bin/env python3
"""Makes the inputs with which fuzz targets begin, from golden files of the tests, and dictionaries of their words.

Usage: tests/fuzz/corpus.py FOLDER; writes FOLDER/TARGET/first/* and FOLDER/TARGET/words."""
import glob
import gzip
import json
import os
import re
import struct
import sys

LARGEST = 20_000  # bytes of an input, as .ci/fuzz gives to libFuzzer
MOST_WORDS = 1500  # of a dictionary
# Sources whose quoted names are words of a target: keys that no input has.
KEYS = {'import': 'app/translate/*_keys.cpp', 'run_config': 'app/deepspeed/keys_*.cpp'}


def read(pattern):
    """Returns the contents of files."""
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        sys.exit(f'{pattern}: there is no such file')
    for path in found:
        with open(path, 'rb') as file:
            yield file.read()


def small(contents, most=40):
    """Returns the smallest of some contents, without duplicates."""
    return sorted({c for c in contents if len(c) <= LARGEST}, key=len)[:most]


def sentencepiece(content, pieces=60):
    """Returns a SentencePiece model with fewer pieces; field 1 of its protobuf message is a piece."""
    out, at, kept = b'', 0, 0
    while at < len(content):
        begin, tag, shift = at, 0, 0
        while True:
            tag |= (content[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if content[at - 1] < 128:
                break
        if tag & 7 == 2:
            size, shift = 0, 0
            while True:
                size |= (content[at] & 127) << shift
                at, shift = at + 1, shift + 7
                if content[at - 1] < 128:
                    break
            at += size
        elif tag & 7 == 0:
            while content[at] >= 128:
                at += 1
            at += 1
        else:
            at += 8 if tag & 7 == 1 else 4
        kept += tag == 10
        if tag != 10 or kept <= pieces:
            out += content[begin:at]
    return out


def safetensors(tensors):
    header, at = {}, 0
    for name, kind, shape, data in tensors:
        header[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text + b''.join(data for *_, data in tensors)


def gguf(keys, tensors):
    """Returns a GGUF file: keys with their types' numbers, and tensors of one block each."""
    def text(s):
        return struct.pack('<Q', len(s)) + s.encode()

    def value(kind, v):
        if kind == 8:
            return text(v)
        if kind == 9:
            return struct.pack('<IQ', v[0], len(v[1])) + b''.join(value(v[0], e) for e in v[1])
        return struct.pack({4: '<I', 5: '<i', 6: '<f', 7: '<?', 10: '<Q'}[kind], v)
    out = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(keys))
    for name, kind, v in keys:
        out += text(name) + struct.pack('<I', kind) + value(kind, v)
    data = b''
    for name, shape, kind, size in tensors:
        out += text(name) + struct.pack('<I', len(shape)) + struct.pack(f'<{len(shape)}Q', *reversed(shape))
        out += struct.pack('<IQ', kind, len(data))
        data += b'\0' * (size + -size % 32)
    return out + b'\0' * (-len(out) % 32) + data


def gguf_files():
    tokens = ['<unk>', '<s>', '</s>', '\u2581a', 'a', 'b', '\u2581', '<0x0A>']
    model = [('general.architecture', 8, 'llama'), ('llama.block_count', 4, 1), ('llama.context_length', 4, 64),
             ('llama.embedding_length', 4, 32), ('llama.feed_forward_length', 4, 32),
             ('llama.attention.head_count', 4, 2), ('llama.attention.head_count_kv', 4, 1),
             ('llama.attention.layer_norm_rms_epsilon', 6, 1e-5), ('llama.rope.dimension_count', 4, 16),
             ('llama.vocab_size', 4, 8)]
    spm = [('tokenizer.ggml.model', 8, 'llama'), ('tokenizer.ggml.tokens', 9, (8, tokens)),
           ('tokenizer.ggml.scores', 9, (6, [0.0] * 8)),
           ('tokenizer.ggml.token_type', 9, (5, [2, 3, 3, 1, 1, 1, 1, 6])),
           ('tokenizer.ggml.bos_token_id', 4, 1), ('tokenizer.ggml.eos_token_id', 4, 2)]
    bpe = [('tokenizer.ggml.model', 8, 'gpt2'), ('tokenizer.ggml.pre', 8, 'llama-bpe'),
           ('tokenizer.ggml.tokens', 9, (8, ['a', 'b', 'ab', 'c', '\u0120', '<e>', 'd', 'e'])),
           ('tokenizer.ggml.merges', 9, (8, ['a b'])),
           ('tokenizer.ggml.token_type', 9, (5, [1, 1, 1, 1, 1, 3, 1, 1]))]
    names = [('token_embd.weight', [8, 32], 0, 1024), ('output_norm.weight', [32], 0, 128),
             ('output.weight', [8, 32], 0, 1024), ('blk.0.attn_norm.weight', [32], 0, 128),
             ('blk.0.ffn_norm.weight', [32], 0, 128), ('blk.0.attn_q.weight', [32, 32], 0, 4096),
             ('blk.0.attn_k.weight', [16, 32], 0, 2048), ('blk.0.attn_v.weight', [16, 32], 0, 2048),
             ('blk.0.attn_output.weight', [32, 32], 0, 4096), ('blk.0.ffn_gate.weight', [32, 32], 8, 34 * 32),
             ('blk.0.ffn_up.weight', [32, 32], 2, 18 * 32), ('blk.0.ffn_down.weight', [32, 32], 1, 2048)]
    blocks = {2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110),
              12: (256, 144), 13: (256, 176), 14: (256, 210), 20: (32, 18), 23: (256, 136), 34: (256, 54)}
    yield gguf(model + spm, names)
    yield gguf(model + bpe, names[:1])
    for kind, (elements, size) in blocks.items():
        yield gguf(model[:1], [('w', [1, elements], kind, size)])


def with_first(byte, contents):
    return [bytes([byte]) + c for c in contents]


def state(**changes):
    form = {'quant_type': 'nf4', 'blocksize': 64, 'dtype': 'bfloat16', 'shape': [8, 64]}
    return json.dumps({**form, **changes}).encode()


def rows():
    """Returns files of rows after a byte for their format."""
    texts = [{'prompt': 'a', 'completion': 'b'}, {'text': 'a b'}, {'instruction': 'a', 'input': '', 'output': 'b'},
             {'messages': [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b'}]},
             {'conversations': [{'from': 'human', 'value': 'a'}, {'from': 'gpt', 'value': 'b'}]},
             {'prompt': 'a', 'chosen': 'b', 'rejected': 'c'}, {'prompt': 'a', 'completion': 'b', 'label': True},
             {'input_ids': [1, 2, 3], 'labels': [-100, 2, 3]}, {'translation': {'de': 'a', 'en': 'b'}},
             {'segments': [{'text': 'a', 'label': False}, {'text': 'b', 'label': True}]}]
    for row in texts:
        yield b'\0' + json.dumps(row).encode() + b'\r\n\n' + json.dumps(row).encode()
        yield b'\1' + json.dumps([row, row]).encode()
    yield b'\2prompt,completion\n"a ""b"",\nc",d\n'
    yield b'\3prompt\tcompletion\na\tb\n'
    yield b'\4\xef\xbb\xbfa line\r\nanother\n'


def tokenizers(most=200):
    """Returns tokenizer.json files with the first pieces of their vocabularies, and the merges of these."""
    for content in read('tests/data/tokenizers/*/tokenizer.json'):
        file = json.loads(content)
        model = file['model']
        if isinstance(model['vocab'], dict):
            model['vocab'] = {piece: i for piece, i in model['vocab'].items() if i < most}
            known = model['vocab']
            pairs = (m if isinstance(m, list) else m.split(' ') for m in model.get('merges', []))
            model['merges'] = [' '.join(p) for p in pairs if ''.join(p) in known and all(x in known for x in p)][:50]
        else:
            model['vocab'] = model['vocab'][:most]
        file['added_tokens'] = file['added_tokens'][:5]
        yield json.dumps(file).encode()


def token_folders():
    """Returns the files of a folder after one another, with zero bytes between them."""
    files = small(tokenizers())
    settings = small(read('tests/**/tokenizer_config.json'))
    yield from files
    yield from (files[0] + b'\0' + s for s in settings)
    vocab = json.dumps({'a': 0, 'b': 1, 'ab': 2, '\u0120': 3, '\u0120a': 4, '<s>': 5}).encode()
    for kind in ('GPT2Tokenizer', 'Qwen2Tokenizer'):
        said = json.dumps({'tokenizer_class': kind, 'bos_token': '<s>', 'add_bos_token': True}).encode()
        yield vocab + b'\0' + said + b'\0#version: 0.2\na b\n\xc4\xa0 a\n'


def commands():
    """Returns command lines of other programs after a zero byte, a word a line; some with a file."""
    for line in ('trl sft --model_name_or_path m --dataset_name d --use_peft --lora_r 8 --learning_rate 1e-4',
                 'accelerate launch --num_processes 4 -m trl.scripts.dpo --model_name_or_path=m --beta 0.1',
                 'deepspeed --num_gpus=2 run_translation.py --model_name_or_path t5-small --fp16 --do_train '
                 '--source_lang en --target_lang de --train_file a.json --deepspeed ds.json',
                 'deepspeed main.py --model_name_or_path m --data_path d --zero_stage 2 --lora_dim 8 --offload',
                 'torchrun --nproc_per_node 2 train.py --gradient_checkpointing true'):
        yield b'\0' + '\n'.join(line.split(' ')).encode()
    for line, file in (('A=1 llamafactory-cli train f.yml stage=sft', 'model_name_or_path: m\ndo_train: true\n'),
                       ('tune run --nproc_per_node 2 lora --config f.yml epochs=1', 'batch_size: 2\nepochs: 1\n'),
                       ('axolotl train f.yml --learning-rate 1e-4', 'base_model: m\nadapter: lora\n'),
                       ('trl sft --config f.yml --packing', 'model_name_or_path: m\ndataset_name: d\n')):
        yield b'\0' + '\n'.join(line.split(' ')).encode() + b'\0' + file.encode()


def foreign_files():
    """Returns configurations of other programs after a byte that lets their keys show whose they are."""
    for text in ('base_model: m\nadapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_alpha: 16\nsequence_len: 512\n'
                 'datasets:\n  - path: d\n    type: alpaca\n    split: train[:9]\nmicro_batch_size: 2\nnum_epochs: 1\n'
                 'optimizer: adamw_bnb_8bit\nlearning_rate: 2e-4\nplugins: [axolotl.integrations.liger.LigerPlugin]\n',
                 'model_name_or_path: m\nstage: sft\nfinetuning_type: lora\nlora_target: all\ndataset: alpaca_en\n'
                 'template: qwen\ncutoff_len: 2048\ndo_train: true\nbf16: true\nper_device_train_batch_size: 1\n',
                 'model_name_or_path: m\ndataset_name: d\nlearning_rate: 1.0e-4\nuse_peft: true\npacking: true\n',
                 'tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n  path: /t\n'
                 'model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\n  lora_rank: 8\n'
                 'dataset: {_component_: torchtune.datasets.alpaca_dataset}\nbatch_size: 2\noutput_dir: /tmp/x\n'
                 'checkpointer:\n  checkpoint_dir: ${output_dir}/a\n'):
        yield b'\xff' + text.encode()


def run_configs():
    """Returns run.json files, some with DeepSpeed's file after a zero byte."""
    yield from small(read('configs/**/*.json'), 60)
    run = {'model': {'model_name_or_path': 'm'}, 'data': {'datasets': [{'path': 'd'}]}}
    deepspeed = {'train_batch_size': 'auto', 'zero_optimization': {'stage': 2, 'offload_optimizer': {'device': 'cpu'}},
                 'bf16': {'enabled': 'auto'}, 'optimizer': {'type': 'AdamW', 'params': {'lr': 'auto'}},
                 'gradient_clipping': 1.0}
    yield json.dumps(run).encode() + b'\0' + json.dumps(deepspeed).encode()
    yield json.dumps(run).encode() + b'\0{"train_micro_batch_size_per_gpu": 1, # c\n "fp16": {"enabled": true},}'


def quantized_configs():
    """Returns config.json files of weights in 4 bits and in FP8."""
    floats = {'num_bits': 8, 'type': 'float', 'strategy': 'channel', 'symmetric': True, 'dynamic': False}
    group = {'targets': ['Linear'], 'weights': floats, 'input_activations': {**floats, 'strategy': 'token'}}
    for said in ({'quant_method': 'bitsandbytes', 'load_in_4bit': True, 'bnb_4bit_quant_type': 'nf4',
                  'bnb_4bit_use_double_quant': True, 'llm_int8_skip_modules': ['lm_head'],
                  'bnb_4bit_compute_dtype': 'bfloat16', 'bnb_4bit_quant_storage': 'uint8'},
                 {'quant_method': 'fp8', 'weight_block_size': [128, 128], 'activation_scheme': 'dynamic', 'fmt': 'e4m3',
                  'modules_to_not_convert': ['lm_head']},
                 {'quant_method': 'compressed-tensors', 'format': 'float-quantized', 'ignore': ['re:.*head'],
                  'config_groups': {'group_0': group}}):
        yield json.dumps({'model_type': 'llama', 'quantization_config': said}).encode()


def results():
    """Returns the results of a sweep, and those of a search after a zero byte."""
    run = {'run': 'a', 'values': ['1'], 'peak_memory_bytes': 5, 'tokens_per_second': 2.5, 'train_loss': None,
           'eval_loss': 0.1, 'exit_code': 0, 'result': 'done'}
    yield json.dumps({'columns': ['data.max_seq_length'], 'runs': [run, {**run, 'values': ['64']}]}).encode()
    trial = {'key': 'k', 'settings': {}, 'exit_code': 0, 'result': 'done', 'stopped_early': False,
             'steps': 3, 'tokens_per_second': 2.5, 'seconds_per_step': 0.1, 'noise': 0.01}
    yield b'\0' + json.dumps(trial).encode() + b'\n' + json.dumps({**trial, 'exit_code': 5}).encode() + b'\n{"ke'


def corpora():
    models, chats = 'tests/golden/models', 'tests/golden/templates'
    parquet = small(read('tests/golden/parquet/*.parquet')) + small(read('tests/golden/parquet/*.arrow'))
    yield 'columnar', parquet
    yield 'chat_template', small(read(f'{chats}/*.jinja'))
    yield 'yaml', list(read('tests/fuzz/yaml/*.yml'))
    yield 'safetensors', small(read(f'{models}/*/adapter/*.safetensors'), 10) + [
        safetensors([('a', 'F32', [2, 2], bytes(16)), ('b', 'BF16', [3], bytes(6)), ('c', 'I64', [], bytes(8))])]
    yield 'weights_index', [json.dumps({'metadata': {'total_size': 16}, 'weight_map': {
        'model.a.weight': 'a.safetensors', 'model.b.weight': 'b.safetensors'}}).encode()]
    yield 'quant_state', with_first(0, [state()]) + with_first(2, [state(quant_type='fp4')]) + with_first(
        1, [state(nested_blocksize=256, nested_dtype='float32', nested_offset=0.5)])
    yield 'model_config', small(read(f'{models}/*/model/config.json'), 80)
    yield 'sentencepiece', small(sentencepiece(c) for c in [
        *read('tests/data/**/*.model'), *read('configs/demo/base/tokenizer.model')])
    yield 'pages', [bytes([c, 4, 0]) + data for c in range(8) for data in
                    (b'abcd', gzip.compress(b'abcd', mtime=0), b'\4\x0cabcd', b'\x0b\x01\x80abcd\x03')]
    yield 'gguf', list(gguf_files())
    yield 'manifest', [json.dumps({'format': 'ft checkpoint', 'version': 1, 'step': 3, 'about': {'x': 1}, 'files': {
        'a': {'bytes': 7, 'sha256': 'ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73'}}}).encode()]
    yield 'hostfile', [b'node1 slots=4\n# c\nnode2 slots=2 max_slots=8\n\0node1@node2:0,1', b'n1\nn1\n10.0.0.1\n',
                       b'NAME=VALUE\nB="c d"\n']
    yield 'frames', [b'\7\nft node 1\n' + struct.pack('<IiI', k, 1, 2) + b'{}' for k in range(1, 14)] + [
        b'\3' + struct.pack('<IiI', k, 1, 2) + b'{}' for k in range(1, 14)]
    chat = b'{"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "n": 2, ' \
           b'"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "stream": true}'
    text = b'{"model": "m", "prompt": ["a", "b"], "max_tokens": 3, "logprobs": 2, "echo": true, "stop": ["x"]}'
    yield 'ask', [chat, text, b'{"model": "m", "prompt": [[1, 2]], "seed": 1, "temperature": 0.5}',
                  b'{"model": "m", "prompt": [1], "stop_token_ids": [2], "return_token_ids": true}',
                  b'{"lora_name": "a", "lora_path": "/x", "load_inplace": true}']
    answer = {'index': 0, 'token_ids': [8, 2], 'finish_reason': 'stop', 'logprobs': {
        'tokens': ['token_id:8', 'token_id:2'], 'token_logprobs': [-0.5, -1.5]}}
    other = {**answer, 'index': 1, 'token_ids': [3, 4, 5, 6], 'finish_reason': 'length',
             'logprobs': {'tokens': [], 'token_logprobs': [-1, -2, -3, -4]}}
    unlisted = {key: value for key, value in answer.items() if key != 'token_ids'}
    yield 'completions', [json.dumps({'choices': c}).encode() for c in ([answer], [answer, other], [unlisted])]
    head = b'Host: 127.0.0.1\r\nContent-Type: application/json\r\n'
    yield 'http', [b'POST /v1/chat/completions HTTP/1.1\r\n' + head + b'Content-Length: %d\r\n\r\n' % len(chat) + chat,
                   b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\n' + head + b'\r\n',
                   b'POST /v1/completions HTTP/1.1\r\n' + head + b'Transfer-Encoding: chunked\r\n\r\n' +
                   b'%x\r\n' % len(text) + text + b'\r\n0\r\n\r\n',
                   b'POST /x HTTP/1.1\r\n' + head + b'Content-Type: multipart/form-data; boundary=b\r\n'
                   b'Content-Length: 60\r\n\r\n--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--b--\r\n',
                   b'GET /?a=%20&b HTTP/1.1\r\nRange: bytes=0-4,-3\r\nExpect: 100-continue\r\nOrigin: '
                   b'https://ui.example\r\n\r\n']
    yield 'card', [b'---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: "*.jsonl"\n'
                   b'---\n# T\n', b'---\nconfigs: [{config_name: a, data_dir: b, default: true}]\n---\n']
    yield 'adapter_config', small(read(f'{models}/*/adapter/adapter_config.json'), 60)
    listing = {'sha': 'a' * 40, 'siblings': [{'rfilename': 'config.json', 'size': 3, 'blobId': 'b' * 40}, {
        'rfilename': 'm.safetensors', 'size': 9, 'lfs': {'sha256': 'c' * 64, 'size': 9}}]}
    order = {'objects': [{'oid': 'b' * 64, 'size': 100, 'actions': {
        'upload': {'href': 'https://s.example/x', 'header': {'chunk_size': '60', '1': 'https://s.example/1',
                                                            '2': 'https://s.example/2'}},
        'verify': {'href': 'https://hub.example/v'}}}]}
    modes = {'files': [{'path': 'a.bin', 'uploadMode': 'lfs', 'shouldIgnore': False, 'oid': 'x'}]}
    commit = {'commitOid': 'd' * 40, 'pullRequestUrl': 'https://hub.example/p', 'success': True}
    yield 'hub', [bytes([s]) + json.dumps(j).encode() for s in (0, 5, 9) for j in (listing, order, modes, commit)] + [
        b'\5https://other.example/x', b'\x0b12\n{"error": "slow"}', b'\0W/"abc"\n{}']
    call = '{"name": "add", "arguments": {"a": 2}}'
    yield 'tool_calls', [f'Hm.\n<tool_call>\n{call}\n</tool_call>'.encode(), f'[TOOL_CALLS][{call}]'.encode(),
                         b'[TOOL_CALLS]add[ARGS]{"a": 1}', b'<|python_tag|>{"name": "add", "parameters": {}}']
    yield 'rollouts', [b'{"step": 1, "loss": 0.5, "epoch": 0.1}\n{"step": 2, "eval_loss": NaN}\n{"step": 4}\n',
                       b'{"step": 1, "prompt_ids": [1], "completion_ids": [2], "reward": 1.0}\n{"step": 9}\n']
    yield 'rows', list(rows())
    yield 'tokenizer_json', list(token_folders())
    yield 'run_config', list(run_configs())
    yield 'import', list(commands()) + list(foreign_files())
    yield 'quantized_config', list(quantized_configs())
    yield 'results', list(results())


def words_of(contents):
    """Returns a dictionary for libFuzzer: names and values that occur in the inputs."""
    found = set()
    for content in contents:
        found.update(re.findall(rb'[A-Za-z_<|][\w.|>/-]{2,30}', content))
    escaped = (re.sub(rb'[^ -~]|["\\]', lambda m: b'\\x%02x' % m.group()[0], w) for w in sorted(found)[:MOST_WORDS])
    return b''.join(b'"%s"\n' % w for w in escaped)


def main(folder):
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..'))
    for target, contents in corpora():
        first = os.path.join(folder, target, 'first')
        os.makedirs(first, exist_ok=True)
        for i, content in enumerate(contents):
            with open(os.path.join(first, f'{i:03}'), 'wb') as file:
                file.write(content)
        keys = [b' '.join(re.findall(rb'"([a-z]\w+)"', s)) for s in (read(KEYS[target]) if target in KEYS else ())]
        with open(os.path.join(folder, target, 'words'), 'wb') as file:
            file.write(words_of(contents + keys))


if __name__ == '__main__':
    main(os.path.abspath(sys.argv[1]))
