"""A terminal that a program runs in: what it shows, as the pages and pictures of docs/ have it."""
import fcntl, os, pty, re, select, struct, termios, time


def run(command, columns, folder=None, typed=None, environment=None, limit=7200):
    """What `command` (an argument list) prints on a terminal of so many columns, byte for byte, and its exit code. After
    each prompt "> " the next of the `typed` lines is entered, after the last the input ends. Ends a program that takes
    longer than `limit` seconds."""
    pid, terminal = pty.fork()
    if pid == 0:
        if folder:
            os.chdir(folder)
        os.execvpe(command[0], command, {**os.environ, "TERM": "xterm-256color", **(environment or {})})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    entries = None if typed is None else [*(line.encode() + b"\n" for line in typed), b"\x04"]
    output, end = b"", time.monotonic() + limit
    while True:
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            os.kill(pid, 9)
            output += b"\r\n(ended after %d s)\r\n" % limit
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the program has ended
            piece = b""
        if not piece:
            return output, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        output += piece
        if entries and plain(screen(output)[-1]) == "> ":
            os.write(terminal, entries.pop(0))


def screen(output):
    """The lines a terminal shows after `output`: a carriage return starts the line again, ESC[K clears its rest."""
    lines = []
    for line in output.decode(errors="replace").replace("\r\n", "\n").split("\n"):
        shown = ""
        for part in line.split("\r"):
            text = part.replace("\x1b[K", "")
            shown = text if "\x1b[K" in part else text + shown[len(text):]
        lines.append(shown)
    return lines


def plain(line):
    """A line without colours and other escapes."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", line)
