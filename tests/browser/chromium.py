"""Drives a headless Chromium through the DevTools protocol, over a pipe: JSON messages that end in a zero byte."""
import base64, fcntl, json, os, select, shutil, subprocess, tempfile, time
from pathlib import Path

PATIENCE = 120  # seconds; generous limits cost nothing where all is well


class Browser:
    """One page in a browser with an empty profile. `requests` has the addresses that it asked, `faults` what went wrong
    in its scripts."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="ft-browser-")
        # Chromium reads from descriptor 3 and writes to 4; ours are above ten, so that they do not collide.
        to_read, self.to, self.from_, to_write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in os.pipe() + os.pipe())
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "bash", "chromium", *flags],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read), os.close(to_write)
        self.held, self.count, self.session = b"", 0, None
        self.requests, self.faults = [], []
        page = next(t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self, until):
        while b"\0" not in self.held:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.from_], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            if not (part := os.read(self.from_, 1 << 16)):
                raise EOFError("the browser has ended")
            self.held += part
        message, self.held = self.held.split(b"\0", 1)
        return json.loads(message)

    def note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.faults.append(params["exceptionDetails"].get("exception", {}).get("description", str(params)))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.faults.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.post("Page.handleJavaScriptDialog", accept=True)

    def post(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        return self.count

    def send(self, method, **params):
        sent, until = self.post(method, **params), time.monotonic() + PATIENCE
        while True:
            message = self.receive(until)
            if message.get("id") != sent:
                self.note(message)
            elif "error" in message:
                raise RuntimeError(f"{method}: {message['error']}")
            else:
                return message["result"]

    def js(self, code):
        """The value of an expression in the page."""
        result = self.send("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{code}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, code):
        """Waits until an expression is true."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if self.js(f"!!({code})"):
                return
            time.sleep(0.05)
        raise TimeoutError(f"never true: {code}; the page: {self.js('document.body.innerText')}")

    def open(self, url):
        self.send("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def press(self, key, text=None, modifiers=0):
        codes = {"Enter": 13, "Tab": 9, "Escape": 27}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key], "modifiers": modifiers}
        text = "\r" if key == "Enter" else text
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def look(self, width, height=800, dark=False):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, file):
        Path(file).write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def names(self):
        """(role, name) of everything that a keyboard can reach, as a screen reader hears it."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        value = lambda node, key: node.get(key, {}).get("value", "")
        focusable = lambda node: any(p["name"] == "focusable" and p["value"].get("value") for p in node.get("properties", []))
        return [(value(n, "role"), value(n, "name")) for n in nodes if focusable(n) and value(n, "role") != "RootWebArea"]
