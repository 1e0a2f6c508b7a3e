#!/usr/bin/env python3
"""Runs the openai package's tool loop and lm-evaluation-harness against ft serve, as far as Python has them.

    bench/clients/run.py FT [FOLDER]

FOLDER is for what the run makes; by default a temporary one. A small model learns one conversation by heart, so that
its calls are known. The harness's log likelihoods of the demo's model are compared with transformers' where torch and
transformers are there. Each part that cannot run says why; the exit code is 1 where a part fails.
"""
import importlib.util, json, re, shutil, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "configs/demo/base"
TEMPLATE = ("{% if tools %}Tools: {% for t in tools %}{{ t.function.name }} {% endfor %}{% endif %}"
            "{% for m in messages %}{{ m.role }}:\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>\n"
            "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>"
            "{% endfor %}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant:\n{% endif %}")
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
USER = {"role": "user", "content": "Is it wet?"}


class Server:
    def __init__(self, ft, *arguments):
        self.process = subprocess.Popen([ft, "serve", "--port", "0", *map(str, arguments)], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:\d+/v1", line):
                self.url = found[0]
                return
        raise SystemExit("ft serve did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


def has(name):
    return importlib.util.find_spec(name) is not None


def taught(ft, folder):
    """A model that knows one conversation with a tool by heart."""
    shutil.copytree(BASE, folder / "base")
    (folder / "base/chat_template.jinja").write_text(TEMPLATE)
    call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    row = {"messages": [USER, {"role": "assistant", "content": "I look.", "tool_calls": [call]},
                        {"role": "tool", "tool_call_id": "a", "content": "rain"},
                        {"role": "assistant", "content": "It rains."}], "tools": TOOLS}
    (folder / "train.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "run.json").write_text(json.dumps({
        "model": {"model_name_or_path": "base"}, "finetuning_type": "full",
        "data": {"datasets": [{"path": "train.jsonl"}], "max_seq_length": 256},
        "training": {"output_dir": "out", "per_device_train_batch_size": 1, "max_steps": 40, "learning_rate": 0.003,
                     "lr_scheduler_type": "constant"}, "checkpointing": {"save_strategy": "no"}}))
    subprocess.run([ft, "train", "--config", "run.json"], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    return folder / "out"


def tool_loop(ft, folder):
    from openai import OpenAI
    with Server(ft, "--model", taught(ft, folder), "--name", "m") as server:
        client = OpenAI(base_url=server.url, api_key="none")
        messages, said = [dict(USER)], []
        for _ in range(4):
            answer = client.chat.completions.create(model="m", messages=messages, tools=TOOLS, max_tokens=100).choices[0]
            messages.append(answer.message)
            said.append(answer.message.content)
            if answer.finish_reason != "tool_calls":
                break
            for call in answer.message.tool_calls:
                assert json.loads(call.function.arguments) == {"city": "Oslo"}, call
                messages.append({"role": "tool", "tool_call_id": call.id, "content": "rain"})
        assert said == ["I look.", "It rains."], said
        pieces = list(client.chat.completions.create(model="m", messages=[USER], tools=TOOLS, stream=True))
        names = [c.function.name for p in pieces for c in (p.choices[0].delta.tool_calls or [])]
        assert names == ["weather"], names
        chat = client.chat.completions.create(model="m", messages=[USER], logprobs=True, top_logprobs=3, max_tokens=4)
        assert len(chat.choices[0].logprobs.content) == 4
        assert len(client.completions.create(model="m", prompt=["a", "b"], n=2, max_tokens=2).choices) == 4
    return "the model's call came back, its tool's answer went in"


def harness(ft, folder):
    """lm-evaluation-harness's requests, scores beside transformers'."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    pairs = [("one two three", " four five"), ("In digits: five =", " 5"), ("seven", " eight nine ten")]
    with Server(ft, "--model", BASE, "--name", "m") as server:
        model = LocalCompletionsAPI(base_url=server.url + "/completions", model="m", tokenizer=str(BASE),
                                    tokenizer_backend="huggingface", batch_size=2, max_length=512)
        asked = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs)]
        scores = model.loglikelihood(asked)
        texts = model.generate_until([Instance("generate_until", {}, ("one two", {"until": ["\n"], "max_gen_toks": 8}), 0)])
    assert len(scores) == len(pairs) and len(texts) == 1
    if not (has("torch") and has("transformers")):
        return f"{len(scores)} log likelihoods, not compared: no transformers"
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    tokenizer, reference = AutoTokenizer.from_pretrained(BASE), AutoModelForCausalLM.from_pretrained(BASE)
    worst = 0
    for (context, continuation), (score, greedy) in zip(pairs, scores):
        head, whole = (model.tok_encode(x) for x in (context, context + continuation))
        with torch.no_grad():
            logp = reference(torch.tensor([whole])).logits[0].float().log_softmax(-1)
        steps = range(len(head), len(whole))
        right = sum(logp[t - 1, whole[t]].item() for t in steps)
        assert greedy == all(logp[t - 1].argmax().item() == whole[t] for t in steps)
        worst = max(worst, abs(right - score))
    assert worst < 1e-3, worst
    return f"{len(scores)} log likelihoods, at most {worst:.1e} from transformers'"


def main():
    ft = str(Path(sys.argv[1]).resolve())
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="ft-clients-"))
    folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for part, package in ((tool_loop, "openai"), (harness, "lm_eval")):
        if not has(package):
            print(f"{part.__name__}: skipped, Python has no {package}")
            continue
        try:
            print(f"{part.__name__}: {part(ft, folder)}")
        except Exception as wrong:
            failed = True
            print(f"{part.__name__}: FAILED: {wrong!r}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
