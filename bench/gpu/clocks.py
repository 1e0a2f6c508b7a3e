"""What the GPU's clock, power and temperature were: nvidia-smi in the background, ten times a second, for a whole part."""
import shutil
import statistics
import subprocess
from dataclasses import dataclass
from datetime import datetime

FIELDS = "timestamp,clocks.sm,power.draw,temperature.gpu,clocks_event_reasons.active"
IDLE, APPLICATION = 0x1, 0x2                         # reasons that are none: nothing to do, as it was set


@dataclass
class Condition:
    """Medians of the samples under load."""
    mhz: float
    watts: float
    celsius: float
    limited: float                                   # share of samples in which power or heat held the clock down

    def text(self):
        held = f", held down in {100 * self.limited:.0f} %" if self.limited else ""
        return f"{self.mhz:.0f} MHz, {self.watts:.0f} W, {self.celsius:.0f} C{held}"


def number(text):
    return float(text.split()[0])


def sample(line):
    """(time, MHz, W, C, reasons), or None where the line is another."""
    words = [w.strip() for w in line.split(",")]
    try:
        when = datetime.strptime(words[0], "%Y/%m/%d %H:%M:%S.%f").timestamp()
        return when, number(words[1]), number(words[2]), number(words[3]), int(words[4], 16)
    except (ValueError, IndexError):
        return None


class Clocks:
    """Samples go to `path`; without nvidia-smi there are none."""

    def __init__(self, path):
        self.path, self.process = path, None
        try:
            self.file = open(path, "w")
            now = ["stdbuf", "-oL"] if shutil.which("stdbuf") else []     # each line as soon as it is there
            self.process = subprocess.Popen([*now, "nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader", "-lms", "100", "-i", "0"],
                                            stdout=self.file, stderr=subprocess.DEVNULL)
        except OSError:
            pass

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.file.close()

    def between(self, begin, end):
        """The Condition in this span (time.time()); None: unknown."""
        if not self.process or begin is None or end is None:
            return None
        found = [s for s in map(sample, open(self.path)) if s and begin <= s[0] <= end]
        busy = [s for s in found if s[2] >= 0.6 * max(f[2] for f in found)]
        if not busy:
            return None
        held = sum(1 for s in busy if s[4] & ~(IDLE | APPLICATION)) / len(busy)
        return Condition(*(statistics.median(s[i] for s in busy) for i in (1, 2, 3)), held)
