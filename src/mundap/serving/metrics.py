"""Figures for Prometheus."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mundap.errors import MundapError

if TYPE_CHECKING:
    from mundap.serving.engine import Engine

FORMAT = "text/plain; version=0.0.4; charset=utf-8"
disable_created_metrics()  # type: ignore[no-untyped-call]  # a second line for every figure, which nobody reads
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """What a server counts and times."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = Counter(
            "mundap_requests", "Requests, by route and status.", ["route", "status"], registry=self._registry
        )
        self.refused = Counter(
            "mundap_refused", "Requests that were refused, by the reason.", ["reason"], registry=self._registry
        )
        self.seconds = Histogram(
            "mundap_request_seconds", "How long requests took.", ["route"], buckets=_SECONDS, registry=self._registry
        )
        self.batches = Histogram(
            "mundap_batch_size", "Questions of a batch.", ["lane"], buckets=_SIZES, registry=self._registry
        )
        self.cache = Counter(
            "mundap_cache", "Questions, by whether the answer was kept.", ["found"], registry=self._registry
        )

    def watch(self, engine: "Engine") -> None:
        """Report on an engine's queues and indexes as well."""
        self._registry.register(_State(engine))

    def text(self) -> bytes:
        """All figures in Prometheus' format."""
        return generate_latest(self._registry)


class _State(Collector):
    """Figures that are looked up when they are asked for, not counted."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily("mundap_waiting", "Questions that wait.", labels=["lane"])
        for lane in self._engine.lanes:
            waiting.add_metric([lane.name], len(lane))
        yield waiting
        usable = GaugeMetricFamily("mundap_index_usable", "Whether an index can be asked.", labels=["index"])
        generation = GaugeMetricFamily("mundap_index_generation", "Commits of an index.", labels=["index"])
        passages = GaugeMetricFamily("mundap_index_passages", "Passages of an index.", labels=["index"])
        for served in self._engine.indexes:
            try:
                index = served.index()
            except MundapError:
                usable.add_metric([served.name], 0)
                continue
            usable.add_metric([served.name], 1)
            generation.add_metric([served.name], index.manifest.generation)
            passages.add_metric([served.name], len(index))
        yield from (usable, generation, passages)
