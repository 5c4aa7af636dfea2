"""Print the oldest versions that pyproject.toml allows, as constraints for pip."""

import re
import tomllib
from pathlib import Path

settings = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))
for wanted in settings["project"]["dependencies"]:
    found = re.match(r"([\w.-]+)(?:\[[^\]]*\])?>=([\w.]+)", wanted)
    if found:
        print(f"{found[1]}=={found[2]}")
