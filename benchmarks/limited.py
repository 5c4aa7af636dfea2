"""Runs a command inside a memory cgroup of so many gigabytes, and tells its peak. Takes root on Linux.

    python benchmarks/limited.py 6 python -m mundap.bench.work search OUT/21015324

What is in the page cache already is not charged to the group. To begin without: `echo 1 > /proc/sys/vm/drop_caches`.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def main() -> int:
    """Make the group, run the command in it, remove the group."""
    gigabytes, *command = sys.argv[1:]
    second = (ROOT / "cgroup.controllers").exists()
    group = (ROOT if second else ROOT / "memory") / f"mundap-{os.getpid()}"
    group.mkdir()
    limit, peak = ("memory.max", "memory.peak") if second else ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
    try:
        (group / limit).write_text(str(int(float(gigabytes) * 1e9)))
        joined = f"import os; open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid())); "
        code = subprocess.run([sys.executable, "-c", f"{joined}os.execvp({command[0]!r}, {command!r})"]).returncode
        sys.stderr.write(f"peak of the group: {int((group / peak).read_text()) / 1e9:.2f} GB\n")
    finally:
        group.rmdir()
    return code


if __name__ == "__main__":
    sys.exit(main())
