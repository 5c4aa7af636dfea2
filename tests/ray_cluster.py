"""What tests with a real Ray cluster share. `make test-ray` runs them."""

import os
from importlib.util import find_spec

import pytest


def _missing():
    if not os.environ.get("MUNDAP_TEST_RAY"):
        return "starts a Ray cluster: `make test-ray` runs it"
    if find_spec("ray") is None:
        return "Ray is not installed: pip install 'mundap[ray]'"
    return ""


with_ray = pytest.mark.skipif(bool(_missing()), reason=_missing() or "-")
PATIENCE = 900
"""Seconds to wait for anything: a busy machine is no failure."""

if not _missing():
    # Ray gives its workers the niceness 15, with which they stand still beside others that compute, and takes a node that
    # does not answer in time for dead.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_health_check_timeout_ms", "120000")
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")
    os.environ.setdefault("RAY_worker_register_timeout_seconds", "600")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
