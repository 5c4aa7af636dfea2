"""The program as its users start it: `mundap WORDS…`, and what comes of it."""

import contextlib
import os
import subprocess
import sys
import tempfile
from unittest import mock

from mundap import cli

START = [sys.executable, "-c", "from mundap.cli import run; run()"]


def mundap(*arguments, stdin=b"", cwd=None, language=""):
    """Run the program within this process, which has loaded its libraries already: exit code, output and errors.

    Its streams are real files, its words those that a shell would hand over, and an error that escapes it is a failure.
    In another language all is translated but the help: click keeps that, and the next test would find it so.
    """
    with contextlib.ExitStack() as stack:
        streams = []
        for name in ("stdin", "stdout", "stderr"):
            stream = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogateescape"))
            stack.enter_context(mock.patch.object(sys, name, stream))
            streams.append(stream)
        streams[0].buffer.write(stdin or b"")
        streams[0].seek(0)
        stack.enter_context(mock.patch.dict(os.environ, COLUMNS="80"))  # as wide as a pipe is, whoever runs the tests
        stack.enter_context(contextlib.chdir(cwd or os.curdir))
        if language:
            os.environ["LANGUAGE"] = language
            stack.enter_context(mock.patch.object(cli, "_translate"))
        code = 0
        try:
            cli.run(list(map(str, arguments)))
        except SystemExit as end:
            code = end.code
        return code, *map(_written, streams[1:])


def _written(stream):
    stream.flush()
    stream.seek(0)
    return stream.read()


def program(*arguments, stdin=None, cwd=None):
    """The same in a process of its own, for what only that can show."""
    done = subprocess.run([*START, *map(str, arguments)], capture_output=True, input=stdin, cwd=cwd)
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, done.stdout.decode(), done.stderr.decode()
