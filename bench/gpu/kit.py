"""Runs the commands of a step, in groups side by side, with a limit; keeps what they say; survives all that goes wrong."""
import json
import os
import re
import shlex
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent    # where the commands run


@dataclass
class Command:
    words: list
    environment: dict = field(default_factory=dict)
    kill_when: Path = None                           # this one is killed (-9) when that file has two lines
    watch_gpu: bool = False                          # sample the GPU's memory while it runs
    watch: Path = None                               # a file whose lines' times are noted; removed before
    name: str = ""                                   # its last words go to NAME.json when they are JSON

    def text(self):
        return " ".join([*(f"{k}={shlex.quote(str(v))}" for k, v in self.environment.items()), *(shlex.quote(str(w)) for w in self.words)])


@dataclass
class Outcome:
    code: int
    text: str
    seconds: float
    gpu_gib: float = None                            # the most that was in use on the GPU
    line_times: list = field(default_factory=list)   # of the watched file; time.time()
    ended: float = 0                                 # time.time()

    def rows(self):
        """Lines that are JSON objects."""
        found = []
        for line in self.text.splitlines():
            try:
                found.append(json.loads(line)) if line.startswith("{") else None
            except ValueError:
                pass
        return found


@dataclass
class Step:
    name: str
    groups: list                                     # of commands that run side by side; one group after another
    limit: float                                     # seconds for all of it
    prepare: object = None                           # called before, not in a dry run
    check: object = None                             # (outcomes in order) -> text for the summary; raises AssertionError
    missing: str = ""                                # why it cannot run here
    codes: tuple = (0,)                              # exit codes that are right
    skips: dict = field(default_factory=dict)        # {exit code: why it cannot run here}


class Skipped(Exception):
    """Raised by a check: this machine cannot do it."""


class GpuMemory:
    """The most that nvidia-smi saw in use, less what was in use before, in GiB."""

    def __init__(self):
        self.before = self.read()
        self.most, self.over = self.before or 0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    @staticmethod
    def read():
        try:
            out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"], capture_output=True, text=True, timeout=10)
            return float(out.stdout.split()[0]) / 1024
        except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
            return None

    def run(self):
        while not self.over.wait(0.25):
            self.most = max(self.most, self.read() or 0)

    def stop(self):
        self.over.set()
        self.thread.join()
        return None if self.before is None else self.most - self.before


class Runner:
    def __init__(self, results, budget, dry):
        self.results, self.dry = results, dry
        self.end = time.monotonic() + budget
        self.rows = []                               # (step, state, seconds, text)
        self.lock = threading.Lock()                 # of the rows

    def left(self):
        return self.end - time.monotonic()

    def run(self, step):
        if self.dry:
            print(f"\n# {step.name} (at most {step.limit:.0f} s){': ' + step.missing if step.missing else ''}")
            for group in step.groups:
                for i, command in enumerate(group):
                    print(command.text() + (" &" if i + 1 < len(group) else ""))
            return
        begun = time.monotonic()
        state, text = self.attempt(step)
        seconds = time.monotonic() - begun
        with self.lock:
            self.rows.append({"step": step.name, "state": state, "seconds": round(seconds, 1), "text": text})
            print(f"{state:8} {seconds:6.1f} s  {step.name}{': ' + text.splitlines()[0] if text else ''}", flush=True)
            self.write()

    def run_together(self, steps, most):
        """Side by side, so many at once; each has its row."""
        if self.dry:
            for step in steps:
                self.run(step)
            return
        with ThreadPoolExecutor(most) as pool:
            list(pool.map(self.run, steps))

    def attempt(self, step):
        if step.missing:
            return "not run", step.missing
        if self.left() < 5:
            return "not run", "no time was left"
        limit = time.monotonic() + min(step.limit, self.left())
        log = self.results / "logs" / (re.sub(r"[^A-Za-z0-9.-]+", "_", step.name) + ".txt")
        outcomes = []
        try:
            if step.prepare:
                step.prepare()
            with open(log, "w") as out:
                for group in step.groups:
                    outcomes += run_group(group, limit, out)
            for o, command in zip(outcomes, [c for g in step.groups for c in g]):
                if o.code in step.skips:
                    return "not run", f"{step.skips[o.code]}: {last_line(o.text)}"
                right = step.codes if not command.kill_when else (-signal.SIGKILL,)
                if o.code not in right:
                    return "failed", f"exit code {o.code}; see {log.name}: " + last_line(o.text)
            return "ok", (step.check(outcomes) if step.check else "") or ""
        except subprocess.TimeoutExpired as e:
            return "failed", f"not over after {e.timeout:.0f} s"
        except Skipped as e:
            return "not run", str(e)
        except AssertionError as e:
            return "failed", str(e)
        except Exception as e:                       # whatever it is, the next step has its turn
            return "failed", f"{type(e).__name__}: {e}"

    def write(self):
        (self.results / "steps.json").write_text(json.dumps(self.rows, indent=1) + "\n")


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def end(process):
    """The process and all it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_group(group, limit, log):
    memory = GpuMemory() if any(c.watch_gpu for c in group) else None
    begun, running = time.monotonic(), []
    try:
        for command in group:
            log.write(f"$ {command.text()}\n")
            log.flush()
            said = open(f"{log.name}.{len(running)}", "w+")
            if command.watch:
                command.watch.unlink(missing_ok=True)
            process = subprocess.Popen(list(map(str, command.words)), stdout=said, stderr=subprocess.STDOUT, start_new_session=True, cwd=ROOT,
                                       env={**os.environ, **{k: str(v) for k, v in command.environment.items()}})
            running.append((command, process, said))
        outcomes = [None] * len(running)
        times = [[] for _ in running]
        while any(o is None for o in outcomes):
            for i, (command, process, said) in enumerate(running):
                over = outcomes[i] is None and process.poll() is not None
                if command.watch and outcomes[i] is None:
                    times[i] += [time.time()] * (lines_of(command.watch) - len(times[i]))
                if over:
                    said.seek(0)
                    outcomes[i] = Outcome(process.returncode, said.read(), time.monotonic() - begun, line_times=times[i], ended=time.time())
                if outcomes[i] is None and command.kill_when and lines_of(command.kill_when) >= 2:
                    process.kill()
            if time.monotonic() > limit:
                raise subprocess.TimeoutExpired(group[0].words, time.monotonic() - begun)
            time.sleep(0.002 if any(c.watch for c in group) else 0.02)
        most = memory.stop() if memory else None
        for o in outcomes:
            o.gpu_gib = most
        return outcomes
    finally:
        if memory:
            memory.over.set()
        for _, process, said in running:
            if process.poll() is None:
                end(process)
            said.seek(0)
            log.write(said.read() + f"[exit code {process.returncode} after {time.monotonic() - begun:.1f} s]\n")
            said.close()
            os.unlink(said.name)


def lines_of(path):
    return path.read_text().count("\n") if path.exists() else 0
