"""`incipit chat` as a person at a terminal meets it (through a pty), and as a script does (through a pipe)."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import _harness
from _harness import START_S, binary, model, test, test_of_words

LEFT, UP, ERASE, ENTER = "\x1b[D", "\x1b[A", "\x7f", "\r"
CONTROL_C, CONTROL_D = "\x03", "\x04"
FIGURES = r"\[(\d+) prompt tokens, (\d+) from the cache; first token after \d+ ms; (\d+) tokens at [\d.]+ a second\]\r\n"
LONG = "Write a very long story about a river." + ENTER


def arguments(*options):
    fixed = ("--temperature", "0", "--kv-memory", "256MiB")
    return [binary(), "chat", "--model", model(), "--cpu", os.environ.get("INCIPIT_CPU") or "auto", *fixed, *options]


class Terminal:
    """A chat that has a terminal of its own. `wait` reads what it shows up to a pattern."""

    def __init__(self, *options, **environment):
        self.screen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                command = arguments(*options)
                os.execve(command[0], command, {**os.environ, "TERM": "xterm", **environment})
            finally:
                os._exit(127)
        self.before = termios.tcgetattr(self.fd)
        try:
            self.banner = self.wait(r"> ")
        except Exception:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        os.close(self.fd)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def read(self):
        """Whether there was more to read."""
        try:
            more = os.read(self.fd, 65536)
        except OSError:  # the chat has ended
            more = b""
        self.screen += more.decode(errors="replace")
        return more != b""

    def wait(self, pattern):
        """What stood before the pattern, and its match: everything up to its end is done with."""
        deadline = time.monotonic() + START_S
        while not (match := re.search(pattern, self.screen)):
            ready, _, _ = select.select([self.fd], [], [], max(0, deadline - time.monotonic()))
            assert ready and self.read(), f"no {pattern!r} in {self.screen[-600:]!r}"
        text = self.screen[: match.start()]
        self.screen = self.screen[match.end() :]
        self.match = match
        return text

    def say(self, keys):
        """Types a line; the prompt tokens, those from the cache, and the reply's tokens, when it has ended."""
        self.type(keys)
        self.wait(r"\r\n")
        return self.figures()

    def figures(self):
        self.reply = self.wait(FIGURES)
        numbers = [int(number) for number in self.match.groups()]
        self.wait("> ")
        return numbers

    def is_quiet(self):
        return not termios.tcgetattr(self.fd)[3] & termios.ECHO

    def end(self):
        """The wait status, once everything is read. The terminal must be as it was."""
        while self.read():
            pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        assert termios.tcgetattr(self.fd) == self.before, termios.tcgetattr(self.fd)
        return status


def pipe(text, *options):
    return subprocess.run(arguments(*options), input=text, capture_output=True, text=True, timeout=START_S)


@test
def the_banner_leads_with_the_model_and_is_two_lines():
    with Terminal() as chat:
        lines = chat.banner.split("\r\n")
        name = os.path.basename(model()).removesuffix(".gguf")
        banner = lines[-3:]
        assert banner[0].startswith(name + ". Control-C ends a reply") and banner[2] == "", lines
        assert "/clear" in banner[1] and "/help" in banner[1], lines


@test
def arrow_keys_move_within_the_line():
    with Terminal() as chat:
        chat.type("/hlp" + LEFT + LEFT + "e" + ENTER)
        chat.wait("/clear +begins a new conversation\r\n/quit .*\r\n/help .*\r\n.*a space and a slash goes to the model")


@test
def the_up_key_brings_lines_back():
    with Terminal() as chat:
        chat.type("/help" + ENTER)
        chat.wait("/quit .*\r\n(?s:.*)> ")
        chat.type("/nothing" + ENTER)
        chat.wait('there is no "/nothing"(?s:.*)> ')
        chat.type(UP + UP + ENTER)
        chat.wait("/quit .*\r\n")


@test
def letters_beyond_ascii_are_whole_in_any_locale():
    for locale in ("C", "C.UTF-8"):
        with Terminal(LC_ALL=locale) as chat:
            chat.type("/\u00e9\u20ac\U0001d11e" + ENTER)
            chat.wait('there is no "/\u00e9\u20ac\U0001d11e" here(?s:.*)> ')
            chat.type("/help\u00e9\u20ac" + ERASE + ERASE + ENTER)
            chat.wait("/quit .*\r\n")


@test
def control_c_at_the_prompt_drops_the_line_and_keeps_the_conversation():
    with Terminal("--max-tokens", "4") as chat:
        prompt, _, written = chat.say("My name is Ann." + ENTER)
        chat.type("this is dropped" + CONTROL_C)
        chat.wait("\r\n> ")
        chat.type("/hel" + CONTROL_C)
        chat.wait("\r\n> ")
        later, cached, _ = chat.say("And yours?" + ENTER)
        assert later > prompt + written and cached > 0, (prompt, written, later, cached)
        chat.type("/clear" + ENTER)
        chat.wait("> ")
        assert chat.say("My name is Ann." + ENTER)[0] == prompt


@test
def control_c_ends_a_reply_and_what_was_said_stays():
    with Terminal("--max-tokens", "2000") as chat:
        chat.type(LONG)
        chat.wait(r"\r\n[^\r\n]{20}")
        assert chat.is_quiet()
        chat.type(CONTROL_C)
        prompt, _, written = chat.figures()
        assert 0 < written < 2000, written
        chat.type("Continue." + ENTER)
        chat.wait(r"\r\n[^\r\n]{5}")
        chat.type(CONTROL_C)
        assert chat.figures()[0] > prompt + written


@test
def keys_during_a_reply_are_not_shown_in_it_and_wait_for_the_prompt():
    with Terminal("--max-tokens", "64") as chat:
        chat.type(LONG)
        chat.wait(r"\r\n[^\r\n]{5}")
        chat.type("/heXX" + ERASE + ERASE)
        assert "/he" not in chat.wait(FIGURES)
        chat.wait("> (?s:.*)/he")
        chat.type("lp" + ENTER)
        chat.wait("/quit .*\r\n")


@test
def a_full_conversation_says_so_and_what_to_do():
    with Terminal("--context", "128") as chat:
        chat.say(LONG)
        assert chat.reply.endswith("\r\n[cut at the context limit]\r\n"), chat.reply[-80:]
        chat.type("More." + ENTER)
        chat.wait(r"incipit: the conversation is full \((\d+) of 128 tokens\); /clear begins a new one\r\n> ")
        assert int(chat.match.group(1)) >= 128
        chat.type("river " * 200 + ENTER)
        chat.wait(r"the conversation is full(?s:.*)> ")
        chat.type("/clear" + ENTER)
        chat.wait("> ")
        assert chat.say("Hi." + ENTER)[0] < 128
        chat.type("/clear" + ENTER)
        chat.wait("> ")
        chat.type("river " * 200 + ENTER)
        chat.wait(r"incipit: this line is too long \(\d+ of 128 tokens\)\r\n> ")


@test_of_words
def a_reply_cut_by_max_tokens_says_so():
    with Terminal("--max-tokens", "3") as chat:
        assert chat.say(LONG)[2] == 3
        assert chat.reply.endswith("\r\n[cut at --max-tokens]\r\n"), chat.reply
    with Terminal("--max-tokens", "100") as chat:
        assert chat.say("What is the capital of France? Answer in one word." + ENTER)[2] < 100
        assert "[cut" not in chat.reply, chat.reply


@test
def control_d_ends_on_a_line_of_its_own():
    with Terminal() as chat:
        chat.type(CONTROL_D)
        status = chat.end()
        assert status == 0 and chat.screen.endswith("\n"), (status, chat.screen)


@test
def signals_end_the_chat_and_leave_the_terminal_as_it_was():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        for keys, shown in (("half a line", "half a line"), (LONG, r"\r\n[^\r\n]{5}")):
            with Terminal("--max-tokens", "2000") as chat:
                chat.type(keys)
                chat.wait(shown)
                assert chat.is_quiet()
                os.kill(chat.pid, number)
                status = chat.end()
                assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == number, status


@test
def control_z_gives_the_terminal_back_until_it_goes_on():
    with Terminal() as chat:
        chat.type("/hel")
        chat.wait("l")
        chat.type("\x1a")
        _, status = os.waitpid(chat.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status) and not chat.is_quiet(), status
        os.kill(chat.pid, signal.SIGCONT)
        chat.wait("> /hel")
        chat.type("p" + ENTER)
        chat.wait("/quit .*\r\n")


@test
def a_pipe_gives_replies_only():
    done = pipe("Say hello.\n\nAnd again.", "--max-tokens", "4")
    assert done.returncode == 0 and done.stdout.count("\n") >= 2 and done.stderr == "", done


@test
def a_pipe_with_a_line_that_fails_is_exit_status_1_and_goes_on():
    words = 5000  # more bytes than a terminal's line can have
    done = pipe("river " * words + "\nSay hello.\n", "--max-tokens", "4", "--context", "128")
    said = re.fullmatch(r"incipit: this line is too long \((\d+) of 128 tokens\)\n", done.stderr)
    assert done.returncode == 1 and said and int(said.group(1)) > words, done.stderr
    assert done.stdout == pipe("Say hello.\n", "--max-tokens", "4", "--context", "128").stdout != "", done.stdout


@test
def a_slash_goes_to_the_model_after_a_space_only():
    done = pipe("/etc/passwd\n", "--max-tokens", "4")
    assert done.returncode == 1 and done.stdout == "" and '"/etc/passwd"' in done.stderr, done
    done = pipe(" /etc/passwd\n", "--max-tokens", "4")
    assert done.returncode == 0 and done.stdout.strip() and done.stderr == "", done


@test
def standard_input_that_cannot_be_read_is_one_sentence():
    folder = os.open("/", os.O_RDONLY)
    done = subprocess.run(arguments(), stdin=folder, capture_output=True, text=True, timeout=START_S)
    os.close(folder)
    assert done.returncode == 1 and done.stderr.startswith("incipit: cannot read standard input: "), done
    assert done.stderr.count("\n") == 1 and done.stdout == "", done


if __name__ == "__main__":
    sys.exit(_harness.run())
