"""The README's install line, as a newcomer types it: in a new venv, with the pip that this brings."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_install_line_of_the_readme_reads_html(tmp_path):
    line = re.search(r"^\$ (pip install .*?)\s+#", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE).group(1)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    scripts = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    subprocess.run([str(scripts / "pip"), *shlex.split(line)[1:], "-q"], cwd=ROOT, check=True)
    page = tmp_path / "docs" / "harbour.html"
    page.parent.mkdir()
    page.write_text("<html><body><h1>Harbour</h1><p>The lighthouse was built in 1911.</p></body></html>", "utf-8")
    mundap = str(scripts / "mundap")
    subprocess.run([mundap, "index", "docs", "-o", "index"], cwd=tmp_path, check=True)
    found = subprocess.run(
        [mundap, "search", "-i", "index", "lighthouse"], cwd=tmp_path, check=True, capture_output=True, encoding="utf-8"
    )
    assert "built in 1911" in found.stdout
