"""The page of ft watch in a real browser: it follows a run to its end, and keeps the place of its reader."""
import json, signal, sys, time, unittest

from chromium import PATIENCE, Browser
from server import Place, Server

LIVE = "document.getElementById('live')?.innerText || ''"


class Watch(unittest.TestCase):
    def train(self, place, *more):
        run = place.start("train", "--config", "run.json", *more)
        self.addCleanup(lambda: (run.kill(), run.wait()))
        until = time.monotonic() + PATIENCE
        while not (place.folder / "out/log.jsonl").exists():
            self.assertTrue(run.poll() is None and time.monotonic() < until, run.log.read_text())
            time.sleep(0.05)
        return run

    def test_a_run_is_followed_to_its_end(self):
        place = self.enterContext(Place(FT))
        run = self.train(place, "training.max_steps=100000", "data.val_set_size=2", "evaluation.eval_strategy=steps",
                         "evaluation.eval_steps=10", "evaluation.predict_with_generate=true")
        with Server(place, "watch", "out") as server, Browser() as browser:
            for width, dark in (400, True), (1200, False):
                browser.look(width, dark=dark)
                browser.open(server.url)
                browser.wait(f"({LIVE}).includes(' of 100,000, ')")
                self.assertEqual(browser.js("document.documentElement.scrollWidth"), width)
            browser.js("document.querySelector('summary').focus()")
            browser.press("Enter")
            first = browser.js(LIVE)
            browser.wait(f"({LIVE}) !== {json.dumps(first)}")
            browser.wait("document.querySelector('#answers td[data-of=now] pre')?.innerText")
            browser.wait("document.querySelector('#course circle')")  # a held-out loss
            self.assertTrue(browser.js("document.querySelector('details').open"), "what was unfolded stays so")
            self.assertEqual(browser.js("document.activeElement.tagName"), "SUMMARY", "the focus stays")
            run.send_signal(signal.SIGTERM)
            self.assertEqual(run.wait(), 75)
            browser.wait("!document.querySelector('script') && document.readyState === 'complete'")
            self.assertEqual(server.get(), (place.folder / "out/report.html").read_text())
            self.assertNotIn("not ended", browser.js("document.body.innerText"))
            asked = len(browser.requests)
            time.sleep(3)
            self.assertEqual(len(browser.requests), asked, "the page of a run that has ended asks no more")
            self.assertEqual(browser.faults, [])
            self.assertEqual([r for r in browser.requests if not r.startswith(server.url)], [])

    def test_a_server_that_has_gone_is_said(self):
        place = self.enterContext(Place(FT))
        run = self.train(place, "training.max_steps=100000")
        with Browser() as browser:
            with Server(place, "watch", "out") as server:
                browser.open(server.url)
            browser.wait("!document.getElementById('fault').hidden")
            self.assertIn("The page is not up to date", browser.js("document.body.innerText"))


if __name__ == "__main__":
    FT = sys.argv.pop(1)
    unittest.main(verbosity=2)
