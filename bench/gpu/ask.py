#!/usr/bin/env python3
"""Starts a server, `ask.py FT serve ...`, asks it the same twice, in one piece and as a stream, prints the answer and ends it."""
import json
import re
import subprocess
import sys
import urllib.request

BODY = {"model": "base", "prompt": "In digits: five =", "max_tokens": 12, "temperature": 0}


def ask(url, **more):
    request = urllib.request.Request(f"{url}/completions", json.dumps({**BODY, **more}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return reply.read().decode()


def main():
    server = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said = ""
        for line in server.stdout:
            said += line
            found = re.search(r"listening at (http\S+?);", line)
            if found:
                break
        else:
            sys.exit(said)
        whole = json.loads(ask(found[1]))["choices"][0]["text"]
        pieces = re.findall(r"^data: ({.*)$", ask(found[1], stream=True), re.MULTILINE)
        stream = "".join(choice["text"] for piece in pieces for choice in json.loads(piece)["choices"])
        if stream != whole:
            sys.exit(f"a stream is {stream!r}, the whole {whole!r}")
        print(f"answer {whole!r}")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
