"""Estimate memory, disk, machines and hours for a number of passages: products of measured figures, each shown."""

import math
from dataclasses import dataclass
from typing import Any

from mundap.errors import UsageError
from mundap.index.sizes import EIGHT_BIT_FROM, EXACT_UP_TO, lists_for

GB = 1e9
MOST = 10**12


@dataclass(frozen=True, slots=True)
class _Figure:
    """A measured figure, or one computed from a format.

    Attributes:
        value: The figure.
        unit: What it counts.
        origin: Where it comes from.
    """

    value: float
    unit: str
    origin: str


# The one place for them. "Measured" is on two virtual cores of an AMD EPYC; each says by which script.
_TEXT = _Figure(
    750, "bytes a passage", "measured: text, title, ids and tables, 9,300 of psgs_w100 (benchmarks/plan.py)"
)
_BESIDE = _Figure(122, "bytes a passage", "measured: ids, offsets and tables, which the figure before has in it")
_POSTINGS = _Figure(189, "bytes a passage", "measured: tantivy on the same passages, compacted (benchmarks/plan.py)")
_CODES = _Figure(
    8, "bytes a passage beside dimension / 4", "format: four bits for two dimensions and a number; measured the same"
)
_PLACE = _Figure(4, "bytes a passage beside its dimension", "format: its place in the eight-bit copy of the vectors")
_LIST = _Figure(8, "bytes a list and dimension", "format: its centre, and the half of a block that is empty on average")
_FILLING = _Figure(
    36_200, "vectors/s a core", "measured: training and filling, 21 million of 384 dimensions (mundap bench scale)"
)
_MEASURED_DIMENSION = 384
_PROCESS = _Figure(
    0.2, "GB", "measured: anonymous memory of a search beside the codes, 88 to 216 MB (benchmarks/start.py)"
)
_READING = _Figure(
    13_179, "passages/s a core", "measured: read and indexed for BM25, 26,358 on two cores (benchmarks/lexical.py)"
)
ENCODING = _Figure(
    27.8, "passages/s a core", "measured: the shipped encoder, 55.6 on two cores (benchmarks/encoding.py)"
)
GPU = _Figure(83, "passages/s a GPU", "published: 21 million passages in 8.8 hours on 8 GPUs, BERT-base (DPR paper)")
_MILVUS_ROW = _Figure(
    2100,
    "bytes a passage beside 4 x dimension",
    "computed, not measured: text 660, terms 560, BM25 vector 600, keys and facts 280, for passages of psgs_w100",
)
_MILVUS_LINKS = _Figure(
    144, "bytes a passage", "format: HNSW with M = 18, which Milvus takes by itself, has 36 links of 4 bytes"
)


@dataclass(frozen=True, slots=True)
class Need:
    """One line of a plan: a quantity and how it was computed."""

    name: str
    amount: float
    unit: str
    arithmetic: str

    def as_dict(self) -> dict[str, Any]:
        """The line as `--json` prints it."""
        return {"name": self.name, "amount": self.amount, "unit": self.unit, "arithmetic": self.arithmetic}


@dataclass(frozen=True, slots=True)
class Machines:
    """What there is to work with.

    Attributes:
        cores: For encoding, all machines together.
        gpus: For encoding; 0 for none.
        rate: Passages a second of one core, by your own measurement.
        gpu_rate: Passages a second of one GPU, by your own measurement.
        memory: GB of each machine that serves.
        replicas: How often Milvus keeps each passage in memory.
    """

    cores: int = 2
    gpus: int = 0
    rate: float = ENCODING.value
    gpu_rate: float = GPU.value
    memory: float = 64.0
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class _Plan:
    """What an index of some size takes.

    Attributes:
        passages: How many.
        dimension: Of a vector.
        making: To make it, wherever it is.
        embedded: In a folder, searched by one process.
        milvus: In Milvus.
    """

    passages: int
    dimension: int
    making: tuple[Need, ...]
    embedded: tuple[Need, ...]
    milvus: tuple[Need, ...]

    def as_dict(self) -> dict[str, Any]:
        """The plan as `--json` prints it."""
        parts = {name: [need.as_dict() for need in getattr(self, name)] for name in ("making", "embedded", "milvus")}
        return {"passages": self.passages, "dimension": self.dimension, **parts}


def plan(passages: int, dimension: int = 384, machines: Machines | None = None, text: float | None = None) -> _Plan:
    """Estimate what a number of 100-word passages takes.

    Args:
        passages: How many.
        dimension: Of a vector.
        machines: What there is to work with.
        text: Bytes of a passage and its title, if they are known; what is stored beside them is added.

    Raises:
        UsageError: A number makes no sense.
    """
    machines = machines or Machines()
    stored = _TEXT.value
    if text is not None:
        stored = text + _BESIDE.value
    if not 1 <= passages <= MOST:
        raise UsageError(f"{passages} passages: choose between 1 and {MOST:,}")
    if not 1 <= dimension <= 65_536:
        raise UsageError(f"{dimension} dimensions: choose between 1 and 65536")
    return _Plan(
        passages,
        dimension,
        _making(passages, dimension, machines),
        _embedded(passages, dimension, stored),
        _milvus(passages, dimension, machines),
    )


def _making(passages: int, dimension: int, machines: Machines) -> tuple[Need, ...]:
    needs = [
        _hours("reading and BM25", passages, _READING.value, 1, "core"),
        _hours("encoding, CPU", passages, machines.rate, machines.cores, "core"),
    ]
    if machines.gpus:
        needs.append(_hours("encoding, GPU", passages, machines.gpu_rate, machines.gpus, "GPU"))
    if passages > EXACT_UP_TO:
        rate = _FILLING.value * _MEASURED_DIMENSION / dimension
        needs.append(_hours("approximate index", passages, rate, machines.cores, "core"))
    return tuple(needs)


def _hours(name: str, passages: int, rate: float, devices: int, device: str) -> Need:
    shown = f"{passages:,} / ({rate:,g} passages/s x {_count(devices, device)}) / 3600"
    return Need(name, passages / (rate * devices) / 3600, "hours", shown)


def _count(number: int, thing: str) -> str:
    if number == 1:
        return f"1 {thing}"
    return f"{number:,} {thing}s"


def _embedded(passages: int, dimension: int, text: float) -> tuple[Need, ...]:
    """In a folder: up to `EXACT_UP_TO` passages all vectors are held, beyond it their codes."""
    lists = lists_for(passages)
    stored = passages * (text + _POSTINGS.value + 2 * dimension)
    stored_shown = f"{passages:,} x (text {text:,.0f} + BM25 {_POSTINGS.value:g} + vectors 2 x {dimension}) bytes"
    if passages > EXACT_UP_TO:
        held = passages * (dimension / 4 + _CODES.value) + lists * _LIST.value * dimension
        each, every = f"({dimension} / 4 + {_CODES.value:g})", f"{_LIST.value:g} x {dimension}"
        held_shown = f"({passages:,} x {each} + {lists:,} lists x {every}) bytes"
        stored += held
        stored_shown += f" + codes {held / GB:,.2f} GB"
        if passages >= EIGHT_BIT_FROM:
            stored += passages * (dimension + _PLACE.value)
            stored_shown += f" + {passages:,} x (eight-bit copy {dimension} + {_PLACE.value:g}) bytes"
    else:
        held = passages * 4.0 * dimension
        held_shown = f"{passages:,} x 4 x {dimension} bytes of vectors"
    return (
        Need("memory", held / GB + _PROCESS.value, "GB", f"{held_shown} + {_PROCESS.value} GB"),
        Need("disk", stored / GB, "GB", stored_shown),
    )


def _milvus(passages: int, dimension: int, machines: Machines) -> tuple[Need, ...]:
    row = _MILVUS_ROW.value + 4 * dimension
    memory = passages * (row + _MILVUS_LINKS.value) * machines.replicas / GB
    usable = 0.75 * machines.memory
    return (
        Need(
            "memory, all machines",
            memory,
            "GB",
            f"{passages:,} x (row {_MILVUS_ROW.value:g} + vectors 4 x {dimension} + HNSW {_MILVUS_LINKS.value:g}) bytes"
            f" x {_count(machines.replicas, 'replica')}",
        ),
        Need(
            "disk",
            passages * row / GB,
            "GB",
            f"{passages:,} x (row {_MILVUS_ROW.value:g} + vectors 4 x {dimension}) bytes",
        ),
        Need(
            "machines",
            math.ceil(memory / usable),
            "",
            f"{memory:,.1f} GB / (3/4 of {machines.memory:g} GB, the rest being left for work)",
        ),
    )


def figures() -> list[_Figure]:
    """All figures a plan is computed from."""
    return [
        _TEXT,
        _BESIDE,
        _POSTINGS,
        _CODES,
        _PLACE,
        _LIST,
        _FILLING,
        _PROCESS,
        _READING,
        ENCODING,
        GPU,
        _MILVUS_ROW,
        _MILVUS_LINKS,
    ]


def number_of(text: str) -> int:
    """Parse a number with an optional suffix: 500k, 21M, 1B.

    Raises:
        UsageError: It is none.
    """
    factors = {"k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9}
    plain = text.strip().lower().replace(",", "").replace("_", "")
    factor = 1
    if plain[-1:] in factors:
        factor = factors[plain[-1]]
        plain = plain[:-1]
    try:
        return round(float(plain) * factor)
    except (ValueError, OverflowError):
        raise UsageError(f"{text}: write a number, as 500k, 21M or 1B") from None
