"""Runs ft for the tests in a browser: folders, runs, and servers at free ports."""
import json, re, signal, subprocess, tempfile, time, urllib.request
from pathlib import Path

from chromium import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "configs/demo/base"


class Place:
    """A temporary folder with the demo's model, in which ft runs."""

    def __init__(self, ft):
        self.ft = Path(ft).resolve()
        self.holder = tempfile.TemporaryDirectory(prefix="ft-browser-")
        self.folder = Path(self.holder.name)
        (self.folder / "train.jsonl").write_text('{"prompt": "one two", "completion": "three four"}\n' * 8)
        (self.folder / "run.json").write_text(json.dumps(
            {"model": {"model_name_or_path": str(BASE)},
             "data": {"datasets": [{"path": "train.jsonl"}], "max_seq_length": 64},
             "training": {"output_dir": "out", "per_device_train_batch_size": 2, "learning_rate": 0.003},
             "logging": {"logging_steps": 1, "progress": "none"}, "checkpointing": {"save_strategy": "no"}}))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.holder.cleanup()

    def start(self, *words):
        log = self.folder / f"log-{time.monotonic_ns()}"
        with log.open("w") as errors:
            process = subprocess.Popen([self.ft, *words], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=errors)
        process.log = log
        return process

    def run(self, *words):
        process = self.start(*words)
        if process.wait() != 0:
            raise RuntimeError(f"ft {' '.join(words)}: {process.log.read_text()}")

    def adapter(self, name, seed):
        self.run("train", "--config", "run.json", "training.max_steps=1", "lora.init_lora_weights=false", "lora.r=2",
                 f"training.seed={seed}", f"training.output_dir={name}")


class Server:
    """ft serve or ft watch at a free port."""

    def __init__(self, place, *words):
        self.process = place.start(*words, "--port", "0")
        until = time.monotonic() + PATIENCE
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", self.process.log.read_text())):
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError(self.process.log.read_text())
            time.sleep(0.05)
        self.url = found[0] + "/"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def get(self, path="", headers={}):
        with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers)) as reply:
            return reply.read().decode()

    def chat(self, model, messages, **more):
        body = json.dumps({"model": model, "messages": messages, **more}).encode()
        request = urllib.request.Request(self.url + "v1/chat/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)["choices"][0]["message"]["content"]
