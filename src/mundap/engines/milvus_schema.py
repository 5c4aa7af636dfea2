"""What Milvus keeps: fields, vector indexes and how they are searched."""

from collections.abc import Mapping
from typing import Any

LONGEST = 65_535
"""Bytes of a VARCHAR."""

NOTES_FIELDS = {"key", "name", "value", "vector"}

# Name of the index, how it is built, how it is searched. `auto` leaves all of it to the server.
INDEXES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "auto": ("AUTOINDEX", {}, {}),
    "exact": ("FLAT", {}, {}),
    "ivf": ("IVF_SQ8", {"nlist": 1024}, {"nprobe": 64}),
    "hnsw": ("HNSW", {"M": 32, "efConstruction": 200}, {"ef": 128}),
}

_KEYS = ("key", "document_key", "source_key")
_TEXTS = ("name", "document", "source", "title", "text", "before")
_NUMBERS = ("position", "start", "stop", "batch")
SHOWN = [*_TEXTS, *_NUMBERS, "whole", "metadata", "blocks"]
"""The fields a passage is put together from."""


class Schemas:
    """The schemas of the two collections.

    Args:
        full_text: Whether the server makes BM25 vectors of terms.
        dimension: Of the dense vectors; 0 for none.
    """

    def __init__(self, full_text: bool, dimension: int) -> None:
        from pymilvus import DataType, Function, FunctionType, MilvusClient

        self.passages = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        add = self.passages.add_field
        for name in _KEYS:
            add(name, DataType.VARCHAR, max_length=32, is_primary=name == "key")
        for name in _TEXTS:
            add(name, DataType.VARCHAR, max_length=LONGEST)
        for name in _NUMBERS:
            add(name, DataType.INT64)
        add("whole", DataType.BOOL)
        add("metadata", DataType.JSON)
        add("blocks", DataType.JSON)
        if dimension:
            add("vector", DataType.FLOAT_VECTOR, dim=dimension)
        if full_text:
            # The terms are ours, stemmed and with spaces between them: any tokenizer that splits at spaces will do.
            add("terms", DataType.VARCHAR, max_length=LONGEST, enable_analyzer=True,
                analyzer_params={"tokenizer": "standard"})  # fmt: skip
            add("sparse", DataType.SPARSE_FLOAT_VECTOR)
            self.passages.add_function(
                Function("bm25", FunctionType.BM25, input_field_names=["terms"], output_field_names=["sparse"])
            )
        self.notes = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        self.notes.add_field("key", DataType.VARCHAR, max_length=32, is_primary=True)
        self.notes.add_field("name", DataType.VARCHAR, max_length=LONGEST)
        self.notes.add_field("value", DataType.JSON)
        self.notes.add_field("vector", DataType.FLOAT_VECTOR, dim=2)  # no collection may be without one


def fields_of(description: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Name, type and dimension of each field: what makes two schemas the same."""
    return {
        field["name"]: (int(field["type"]), int(field.get("params", {}).get("dim", 0)))
        for field in description["fields"]
    }


def searching(kind: str, k: int) -> dict[str, Any]:
    """The search parameters for the best k. HNSW must explore at least k candidates."""
    params = dict(INDEXES[kind][2])
    if "ef" in params:
        params["ef"] = max(params["ef"], 2 * k)
    return params
