#!/usr/bin/env python3
"""Tests of .ci/docs, with pages and a program of their own. Seconds; .ci/check runs it."""
import subprocess, sys, tempfile, unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from compare import agrees, fitted  # noqa: E402
from terminal import screen  # noqa: E402

PAGE = """# A page

<!-- file: words.txt -->

```
one
two
three
```

```console
$ cat words.txt
one
...
three
$ echo "loss 1.5" \\
    "in 3.2 s"
loss 1.2 in 9.9 s
$ ft chat
hello
> a
heard a
> /quit
```
"""
FT = """#!/usr/bin/env python3
print("hello")
try:
    while (line := input("\\x1b[1m> \\x1b[0m")) != "/quit":
        print(f"\\x1b[1mheard\\x1b[0m {line}")
except EOFError:
    print()
"""


class Compare(unittest.TestCase):
    def test_times_and_speeds_may_differ_numbers_may_not(self):
        self.assertTrue(agrees("80 steps in 8m00s, 32.3 tok/s, peak 640.7 MiB", "80 steps in 1m01s, 900 tok/s, peak 641.9 MiB"))
        self.assertFalse(agrees("80 steps in 8m00s", "81 steps in 8m00s"))
        self.assertTrue(agrees("loss 3.476", "loss 3.477"))
        self.assertFalse(agrees("loss 3.476", "loss 3.9"))
        self.assertTrue(agrees("longest sample that fits: 55,680 tokens", "longest sample that fits: 45,696 tokens"))
        self.assertFalse(agrees("loss 3.476", "lost 3.476"))

    def test_left_out_lines_stay_left_out(self):
        shown = ["a", "b 1", "c", "d 2", "e"]
        self.assertEqual(fitted(["a", "...", "d 3", "e"], shown), ["a", "...", "d 2", "e"])
        self.assertEqual(fitted(["...", "b 1", "..."], shown), ["...", "b 1", "..."])
        self.assertEqual(fitted(["..."], shown), ["..."])
        for other in (["a", "...", "d 2"], ["b 1", "...", "e"], ["a", "...", "x", "..."], ["a", "b 1", "c"], [], ["e", "...", "a"]):
            self.assertIsNone(fitted(other, shown), other)

    def test_a_live_line_is_what_it_shows_last(self):
        self.assertEqual(screen(b"step 1 of 20\rstep 2 of 20\r\x1b[Kdone\r\nnext"), ["done", "next"])


class Docs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "ft").write_text(FT)
        (self.folder / "ft").chmod(0o755)

    def docs(self, text, *options):
        """(exit code, what it prints, the page afterwards)"""
        page = self.folder / "page.md"
        page.write_text(text)
        done = subprocess.run([sys.executable, HERE / "docs", self.folder / "ft", page, *options], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, page.read_text()

    def test_a_page_that_is_right_stays_as_it_is(self):
        for options in ((), ("--check",)):
            code, said, page = self.docs(PAGE.replace("1.2 in", "1.5 in"), *options)
            self.assertEqual((code, page), (0, PAGE.replace("1.2 in", "1.5 in")), said)
            self.assertIn("as it was", said)

    def test_a_chat_may_end_without_a_word(self):
        page = PAGE.replace("> /quit\n", "").replace("1.2 in", "1.5 in")
        self.assertEqual(self.docs(page, "--check")[::2], (0, page))

    def test_what_is_old_is_found_and_made_again(self):
        code, said, page = self.docs(PAGE, "--check")
        self.assertEqual((code, page), (1, PAGE))
        self.assertIn("-loss 1.2 in 9.9 s\n+loss 1.5 in 3.2 s\n", said)
        code, said, page = self.docs(PAGE)
        self.assertEqual((code, page), (0, PAGE.replace("loss 1.2 in 9.9 s", "loss 1.5 in 3.2 s")), said)

    def test_other_lines_take_the_place_of_all(self):
        self.assertIn("$ cat words.txt\none\ntwo\nthree\n$", self.docs(PAGE.replace("one\n...", "zero\n..."))[2])
        self.assertEqual(self.docs(PAGE.replace("heard a", "heard b"), "--check")[0], 1)

    def test_a_command_that_fails_is_told(self):
        code, said, _ = self.docs(PAGE.replace("cat words", "cat no_words"), "--check")
        self.assertEqual(code, 1)
        self.assertIn("No such file", said)

    def test_a_page_or_a_block_without_its_model_is_skipped(self):
        code, said, page = self.docs("<!-- needs: models/x -->\n\n" + PAGE, "--check")
        self.assertEqual(code, 0)
        self.assertIn("models/x is not there", said)
        block = PAGE.replace("```console", "<!-- needs: models/x -->\n\n```console")
        self.assertEqual(self.docs(block, "--check")[0], 0)
        (self.folder / "x").mkdir()
        self.assertEqual(self.docs(block, "--check", "--models", str(self.folder))[0], 1)
        code, said, page = self.docs("<!-- needs: models/x -->\n\n```console\n$ ls models\n```\n", "--models", str(self.folder))
        self.assertIn("$ ls models\nx\n", page)

    def test_the_folder_has_no_name(self):
        self.assertIn("$ echo $PWD/words.txt\nwords.txt\n", self.docs("```console\n$ echo $PWD/words.txt\n```\n")[2])

    def test_files_of_another_page(self):
        (self.folder / "other.md").write_text(PAGE)
        page = self.docs("<!-- files of: other.md -->\n\n# Page\n\n```console\n$ cat words.txt\n```\n")[2]
        self.assertIn("one\ntwo\nthree\n```", page)


if __name__ == "__main__":
    unittest.main()
