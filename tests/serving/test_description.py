"""The API against its own OpenAPI description, by schemathesis."""

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from mundap import Index


@pytest.fixture(scope="module")
def address(tmp_path_factory, tiny_model, tiny_reader, start):
    folder = tmp_path_factory.mktemp("described")
    (folder / "a.txt").write_text("The king of the river was a villain.")
    Index.build([folder / "a.txt"], folder / "i", model=str(tiny_model))
    limits = {"rate": 0, "at_once": 0}
    return start({"main": folder / "i"}, tiny_reader, writable=True, limits=limits).address


HARMLESS = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None, "derandomize": True}


def test_the_api_does_what_it_says(address):
    """Good and bad requests to every operation: no crash, and responses as described."""
    # Only here: it takes seconds to import, and every process that runs tests imports all of their files.
    schemathesis = pytest.importorskip("schemathesis", reason="needs the extra `dev`")
    checks = pytest.importorskip("schemathesis.specs.openapi.checks")
    api = schemathesis.openapi.from_url(f"{address}/openapi.json")
    # A query that is too long is refused by the size of its head, before anything looks at what it says.
    api.config.checks.negative_data_rejection.expected_statuses.append("431")
    tried = set()
    for operation in (found.ok() for found in api.get_all_operations()):
        for mode in schemathesis.GenerationMode:

            @settings(max_examples=8, **HARMLESS)
            @given(operation.as_strategy(generation_mode=mode))
            def attempt(case):
                # Not every rule can be said in a schema: that a question must not be blank, for one.
                case.call_and_validate(excluded_checks=[checks.positive_data_acceptance], timeout=60)

            with contextlib.suppress(Unsatisfiable):  # what takes nothing cannot be asked wrongly
                attempt()
            tried.add(operation.label)
    assert {"POST /v1/ask", "POST /v1/search", "POST /v1/documents", "DELETE /v1/documents/{id}"} <= tried
