"""Marks for tests that need more of the system than mundap does."""

import os
import sys

import pytest

not_windows = pytest.mark.skipif(os.name == "nt", reason="needs signals, limits, pipes or forks, which Windows lacks")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, or a limit on a process's memory")
