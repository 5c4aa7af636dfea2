"""`make dist`: build wheels and sdist, then run the README's first commands in a fresh venv outside the repository."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
MULTILINGUAL = ROOT / "packages" / "mundap-models-multilingual"
LARGEST = 100 * 10**6


def main() -> None:
    """Build, install, run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    out = parser.parse_args().out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    build = [sys.executable, "-m", "build", "--outdir", str(out)]
    subprocess.run([*build, str(ROOT)], check=True)
    subprocess.run([*build, "--wheel", str(MULTILINGUAL)], check=True)
    wheels, sdist = sorted(out.glob("*.whl")), next(out.glob("*.tar.gz"))
    for path in (*wheels, sdist):
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    for wheel in wheels:
        if wheel.stat().st_size > LARGEST:
            sys.exit(f"{wheel.name} is larger than {LARGEST / 1e6:.0f} MB")
    with tempfile.TemporaryDirectory(prefix="mundap-dist-") as name:
        prove(wheels, sdist, Path(name))


def prove(wheels: list[Path], sdist: Path, folder: Path) -> None:
    """Install the wheels where the repository is not to be seen, and run the README's first commands."""
    venv.create(folder / "venv", with_pip=True)
    scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(scripts / "python"), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt")]
    # As the README installs them: the program with its extra for Korean, and the models for it.
    wanted = [f"{wheel}[ko]" if wheel.name.startswith("mundap-") else str(wheel) for wheel in wheels]
    subprocess.run([*pip, *wanted], check=True, cwd=folder)
    with tarfile.open(sdist) as archive:  # the examples come from the sdist: so it is whole
        archive.extractall(folder, filter="data")
    shutil.move(str(folder / sdist.name.removesuffix(".tar.gz") / "examples"), folder / "examples")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PATH"] = f"{scripts}{os.pathsep}{environment['PATH']}"
    for command, expected in first_commands():
        print(f"$ {command}")
        words = [str(scripts / "mundap"), *shlex.split(command)[1:]]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8")
        print(done.stdout + done.stderr)
        if done.returncode or expected not in done.stdout:
            sys.exit(f"exit code {done.returncode}; expected in the output: {expected}")
    print("the wheels work outside the repository")


def first_commands() -> list[tuple[str, str]]:
    """The commands of the README's first block, each with the first words of the output shown there."""
    block = re.search(r"```console\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    if block is None:
        sys.exit("README.md: no console block")
    found: list[tuple[str, str]] = []
    for line in block[1].splitlines():
        if line.startswith("$ mundap"):
            found.append((line[2:], ""))
        elif found and not found[-1][1] and not line.startswith("$"):
            found[-1] = found[-1][0], line.split("  (")[0].rsplit("  ", 1)[0].strip()
    return found


if __name__ == "__main__":
    main()
