"""The chat page of ft serve in a real browser: conversations, streams, models side by side, keys and other origins."""
import http.server, json, subprocess, sys, threading, unittest

from chromium import Browser
from server import BASE, Place, Server

CHATML = "data.chat_template=chatml"
LONG = ["generation.min_length=400", "generation.max_length=500", "generation.max_new_tokens=450"]
TURNS = "document.querySelectorAll('.turn').length"
DONE = "document.querySelectorAll('.answer').length && !document.querySelector('.going') && document.getElementById('stop').hidden"


def one(selector, more=""):
    return f"document.querySelector({json.dumps(selector)}){more}"


def button(label):
    """The last button whose name begins so."""
    return f"[...document.querySelectorAll('button')].filter(b => (b.ariaLabel || b.textContent).startsWith({json.dumps(label)})).pop()"


class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = cls.enterClassContext(Place(FT))
        for seed, name in enumerate(("a1", "a2"), 1):
            cls.place.adapter(name, seed)
        (cls.place.folder / "key").write_text("s3cret\n")

    def serve(self, *more):
        return Server(self.place, "serve", "--model", str(BASE), "--adapter", "one=a1", "--adapter", "two=a2", CHATML,
                      *(more or ["generation.max_new_tokens=12"]))

    def open(self, browser, server):
        browser.open(server.url)
        browser.wait(one("#model", ".value"))

    def ask(self, browser, text):
        browser.js(one("#message", ".focus()"))
        browser.type(text)
        browser.press("Enter")
        browser.wait(DONE)

    def choose(self, browser, which, name):
        browser.js(f"{one(which, '.value')} = {json.dumps(name)}; {one(which)}.dispatchEvent(new Event('change'))")

    def answers(self, browser):
        """The texts of the answers, a list for each turn."""
        return browser.js("[...document.querySelectorAll('.turn')].map(t => "
                          "[...t.querySelectorAll('.answer .text')].map(a => a.textContent))")

    def end(self, browser, server):
        """The page asked nobody but its server, and its scripts had no fault."""
        self.assertEqual([r for r in browser.requests if not r.startswith((server.url, "data:"))], [])
        self.assertEqual(browser.faults, [])

    def test_a_conversation(self):
        with self.serve() as server, Browser() as browser:
            self.open(browser, server)
            self.ask(browser, "one two")
            said = [{"role": "user", "content": "one two"}]
            first = server.chat("base", said)
            self.assertEqual(self.answers(browser), [[first]])
            self.assertRegex(browser.js(one(".note", ".textContent")), r"^\d+ tokens, [\d.]+ tok/s")
            said += [{"role": "assistant", "content": first}, {"role": "user", "content": "and three"}]
            self.ask(browser, "and three")
            second = server.chat("base", said)
            self.assertEqual(self.answers(browser), [[first], [second]])

            browser.open(server.url)  # the browser keeps the conversation, the server does not
            browser.wait(one("#model", ".value"))
            self.assertEqual(self.answers(browser), [[first], [second]])

            browser.js(f"navigator.clipboard.writeText = async text => window.copied = text; {button('Copy as curl')}.click()")
            browser.wait("window.copied")
            command = browser.js("copied")
            said_by_curl = json.loads(subprocess.check_output(["bash", "-c", command], stderr=subprocess.DEVNULL))
            self.assertEqual(said_by_curl["choices"][0]["message"]["content"], second)

            browser.js(f"{button('Regenerate')}.click()")
            browser.wait(DONE)
            self.assertEqual(self.answers(browser), [[first], [second]])

            browser.js("document.querySelector('.user button').click()")  # edit the first message
            self.assertEqual(browser.js("document.activeElement.value"), "one two")
            browser.js("document.activeElement.select()")
            browser.type("seven")
            self.assertIn("Send, and drop 1 later turn", browser.js("document.body.innerText"))
            browser.press("Enter")
            browser.wait(f"{TURNS} === 1 && {DONE}")
            self.assertEqual(self.answers(browser), [[server.chat("base", [{"role": "user", "content": "seven"}])]])

            browser.js(f"{button('New chat')}.click()")
            browser.wait(f"{TURNS} === 0")
            self.end(browser, server)

    def test_settings_reach_the_request(self):
        with self.serve() as server, Browser() as browser:
            self.open(browser, server)
            browser.js(f"{button('Settings')}.click()")
            for name, value in {"system": "one", "temperature": "1.5", "seed": "7", "max_tokens": "5"}.items():
                browser.js(f"document.querySelector('[name={name}]').focus()")
                browser.type(value)
            self.ask(browser, "two")
            said = [{"role": "system", "content": "one"}, {"role": "user", "content": "two"}]
            self.assertEqual(self.answers(browser), [[server.chat("base", said, temperature=1.5, seed=7, max_tokens=5)]])
            browser.js("document.querySelector('[name=temperature]').select()")
            browser.type("9")
            browser.js(one("#message", ".focus()"))
            browser.type("three")
            browser.press("Enter")
            self.assertEqual(browser.js(TURNS), 1, "a wrong setting is not sent")
            self.end(browser, server)

    def test_a_stream_that_is_stopped(self):
        with self.serve("generation.batch_size=1", *LONG) as server, Browser() as browser:
            self.open(browser, server)
            browser.js(one("#message", ".focus()"))
            browser.type("one two")
            browser.press("Enter")
            browser.wait(one(".going .text", "?.textContent.length > 3"))
            browser.press("Escape")
            browser.wait(DONE)
            self.assertEqual(browser.js(one(".note", ".textContent")), "stopped")
            text = self.answers(browser)[0][0]
            self.assertGreater(len(text), 3)
            self.assertEqual(browser.js("document.activeElement.id"), "message")
            # The only place for answers is free again.
            self.assertTrue(server.chat("base", [{"role": "user", "content": "one two"}], max_tokens=1))
            self.assertEqual(self.answers(browser)[0][0], text)
            self.end(browser, server)

    def test_two_adapters_side_by_side(self):
        with self.serve() as server, Browser() as browser:
            self.open(browser, server)
            self.choose(browser, "#model", "one")
            self.choose(browser, "#beside", "two")
            said = {name: [] for name in ("one", "two")}
            for text in ("one two", "three"):
                self.ask(browser, text)
                given = self.answers(browser)[-1]
                for name, answer in zip(said, given):
                    said[name].append({"role": "user", "content": text})
                    self.assertEqual(answer, server.chat(name, said[name]), name)
                    said[name].append({"role": "assistant", "content": answer})
                self.assertNotEqual(*given)
            self.end(browser, server)

    def test_the_key_is_asked_for(self):
        with self.serve("--api-key-file", "key") as server, Browser() as browser:
            browser.open(server.url)
            for key in ("wrong", "s3cret"):
                browser.wait("document.getElementById('key-dialog').open")
                browser.js("document.getElementById('key').value = ''; document.getElementById('key').focus()")
                browser.type(key)
                browser.press("Enter")
                browser.wait("document.getElementById('model').value || document.body.innerText.includes('missing or wrong')")
            browser.wait(one("#model", ".value"))
            self.ask(browser, "one")
            self.assertNotEqual(self.answers(browser), [[""]])
            self.assertNotIn("s3cret", browser.js("JSON.stringify(localStorage)"))

    def test_a_keyboard_and_400_pixels_are_enough(self):
        with self.serve() as server, Browser() as browser:
            browser.look(400, dark=True)
            self.open(browser, server)
            self.choose(browser, "#beside", "two")
            browser.press("Escape")
            browser.js(one("#model", ".focus()"))
            order = []
            for _ in range(7):
                order.append(browser.js("document.activeElement.id"))
                browser.press("Tab")
            self.assertEqual(order, ["model", "beside", "show-settings", "new", "log", "message", "send"])
            browser.js(one("#show-settings", ".focus()"))
            browser.press("Enter")
            self.assertEqual(browser.js(one("#show-settings", ".ariaExpanded")), "true")
            self.ask(browser, "a_word_that_is_longer_than_the_screen_is_wide_" * 4)
            self.assertEqual(browser.js("document.documentElement.scrollWidth"), 400)
            outside = "[...document.querySelectorAll('button, input, textarea, select, .text')].filter(e => e.offsetParent && e.getBoundingClientRect().right > 400).length"
            self.assertEqual(browser.js(outside), 0)
            self.assertEqual([role for role, name in browser.names() if not name], [], "each has a name")
            self.assertEqual(browser.js(one("#log", ".ariaLive")), "polite")
            self.end(browser, server)

    def test_pages_of_other_origins(self):
        page = b"<!doctype html><p>another page"

        class Other(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200), self.send_header("Content-Type", "text/html"), self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_):
                pass

        other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
        threading.Thread(target=other.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{other.server_port}"
        for more, expected in ([], "refused"), (["--allow-origin", origin], "answered"):
            with self.serve("generation.max_new_tokens=3", *more) as server, Browser() as browser:
                browser.open(origin + "/")
                ask = json.dumps({"model": "base", "prompt": "one"})
                asked = browser.js(f"fetch('{server.url}v1/completions', {{method: 'POST', body: {json.dumps(ask)}, "
                                   "headers: {'Content-Type': 'application/json'}})"
                                   ".then(r => r.json()).then(j => j.choices ? 'answered' : 'error', () => 'refused')")
                self.assertEqual(asked, expected)
        other.shutdown()
        other.server_close()


if __name__ == "__main__":
    FT = sys.argv.pop(1)
    unittest.main(verbosity=2)
