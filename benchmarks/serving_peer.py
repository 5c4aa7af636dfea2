"""The peer of serving.py: what one writes first. FastAPI, sentence-transformers and FAISS, all as they come.

Started by serving.py, with the folder of the data in PEER: model/, passages.jsonl, vectors.npy.
"""

import json
import os
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

DATA = Path(os.environ["PEER"])
app = FastAPI()
encoder = SentenceTransformer(str(DATA / "model"), device="cpu")
tokenizer = AutoTokenizer.from_pretrained(str(DATA / "model"))
reader = AutoModelForQuestionAnswering.from_pretrained(str(DATA / "model")).eval()  # its head is random: speed alone
passages = [json.loads(line) for line in (DATA / "passages.jsonl").open(encoding="utf-8")]
index = faiss.IndexFlatIP(384)
index.add(np.load(DATA / "vectors.npy"))


class Body(BaseModel):
    """A question."""

    question: str
    k: int = 10


@app.post("/v1/search")
def search(body: Body) -> dict[str, Any]:
    """The nearest passages."""
    vector = encoder.encode([body.question], normalize_embeddings=True, show_progress_bar=False)
    scores, found = index.search(vector, body.k)
    hits = [{"score": float(score), "passage": passages[n]} for score, n in zip(scores[0], found[0], strict=True)]
    return {"query": body.question, "hits": hits}


@app.post("/v1/ask")
def ask(body: Body) -> dict[str, Any]:
    """The best span in the nearest passages."""
    hits = search(body)["hits"]
    texts = [hit["passage"]["text"] for hit in hits]
    rows = tokenizer([body.question] * len(texts), texts, truncation="only_second", max_length=384, padding=True,
                     return_tensors="pt")  # fmt: skip
    with torch.inference_mode():
        out = reader(**rows)
    best = int((out.start_logits.max(1).values + out.end_logits.max(1).values).argmax())
    start, end = int(out.start_logits[best].argmax()), int(out.end_logits[best].argmax())
    return {"answer": tokenizer.decode(rows["input_ids"][best][start : end + 1]), "passage": hits[best]["passage"]}
