"""Put the figures of `mundap reproduce` into docs/findings.md.

    python docs/findings.py OUT [OUT …]

Where the page has `<!-- NAME -->` and `<!-- / -->`, the table of OUT/NAME/results.md is put in between, with the claims
that were tested and what it took. What was not run is left as it is.
"""

import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).with_suffix(".md")
_PART = re.compile(r"<!-- (?P<name>[a-z0-9-]+) -->\n.*?<!-- / -->", re.DOTALL)


def filled(page: str, folders: list[Path]) -> str:
    """The page with the figures that are there."""

    def part(found: re.Match[str]) -> str:
        for folder in folders:
            if (folder / found["name"] / "results.md").is_file():
                return f"<!-- {found['name']} -->\n{_figures(folder / found['name'])}\n<!-- / -->"
        return found[0]

    return _PART.sub(part, page)


def _figures(folder: Path) -> str:
    """The setting, the table and the claims of a report, without its title and what all reports say."""
    lines = (folder / "results.md").read_text("utf-8").split("\n### ", 1)[0].splitlines()
    table = [line for line in lines if line.startswith("|")]
    claims = [line for line in lines if line.startswith("- ")]
    facts = json.loads((folder / "results.json").read_text("utf-8"))
    took = f"{facts['seconds']:,.0f} seconds, {facts['cpu_seconds']:,.0f} of processor time"
    command = f"`mundap reproduce {facts['experiment']}`, {took}."
    return "\n".join([lines[2], "", command, "", *table, "", *claims])


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8"), [Path(one).expanduser() for one in sys.argv[1:]]), "utf-8")
    sys.stdout.write(f"{PAGE}\n")
