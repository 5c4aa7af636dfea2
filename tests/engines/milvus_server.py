"""Runs a command beside a real Milvus server of the PyPI package `milvus`, in a network of its own.

    python tests/engines/milvus_server.py COMMAND…

The server listens on all interfaces whatever it is told, so it is started where there is no interface but the loopback.
That takes root and `unshare`; where these are missing the reason is printed and nothing is run.
"""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from importlib.util import find_spec

PORT = 19530
INSIDE = "MUNDAP_INSIDE_NETWORK"
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def main() -> int:
    reason = missing()
    if reason:
        print(f"Milvus server: skipped, {reason}")  # noqa: T201
        return 0
    if not os.environ.get(INSIDE):
        return subprocess.run(["unshare", "-n", sys.executable, *sys.argv], env={**os.environ, INSIDE: "1"}).returncode
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the server ends with us
    # The background job of a shell ignores SIGINT, and so would the server, which is stopped by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise_loopback()
    folder = tempfile.mkdtemp(prefix="mundap-milvus-")
    os.symlink(unpacked(), os.path.join(folder, "bin"))
    server = os.path.join(os.path.dirname(sys.executable), "milvus-server")
    with open(os.path.join(folder, "log"), "wb") as log:
        process = subprocess.Popen([server, "--data", folder, "--proxy-port", str(PORT)], stdout=log, stderr=log)
        try:
            wait_until_ready(process, log.name)
            environment = {**os.environ, "MUNDAP_TEST_MILVUS": f"milvus://127.0.0.1:{PORT}"}
            environment["MUNDAP_TEST_MILVUS_DATA"] = os.path.join(folder, "data")
            return subprocess.run(sys.argv[1:], env=environment).returncode
        finally:
            stop(process, folder)
            shutil.rmtree(folder, ignore_errors=True)


def missing() -> str:
    if sys.platform != "linux" or not shutil.which("unshare"):
        return "there is no `unshare` here"
    if not find_spec("milvus"):
        return "the package is not installed: pip install --no-deps milvus==2.3.5"
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        return "a network of its own takes root"
    return ""


def unpacked() -> str:
    """The server's programs, 250 MB out of 56: once for this environment, since it takes longer than to start them.

    The package does it, into the folder of the data, and leaves out what it finds there with the right checksum.
    """
    import fcntl

    import milvus

    folder = os.path.join(sys.prefix, "share", "mundap-milvus")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        milvus._initialize_data_files(folder)
    return os.path.join(folder, "bin")


def raise_loopback() -> None:
    """`ip link set lo up`, where there may be no `ip`."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(handle, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def wait_until_ready(process: subprocess.Popen, log: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen("http://127.0.0.1:9091/healthz", timeout=5) as answer:
                if b"OK" in answer.read():
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.5)
    with open(log, errors="replace") as said:
        print(said.read()[-2000:])  # noqa: T201
    raise SystemExit(f"the Milvus server does not start, or not within {seconds:.0f} seconds; above is what it said")


def stop(process: subprocess.Popen, folder: str) -> None:
    """The wrapper ends its child on SIGINT; the child is waited for, since it writes into the folder."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(90)
    except subprocess.TimeoutExpired:
        process.kill()
    deadline = time.monotonic() + 60
    while (left := processes_in(folder)) and time.monotonic() < deadline:
        time.sleep(0.5)
    for process_id in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)


def processes_in(folder: str) -> list[int]:
    found = subprocess.run(["pgrep", "-f", folder], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


if __name__ == "__main__":
    sys.exit(main())
