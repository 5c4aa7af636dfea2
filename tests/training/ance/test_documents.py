"""MaxP: a document is as good as its best chunk, in training, in the corpus and in search."""

import json
from collections import Counter

import numpy as np
import pytest

from mundap.errors import UsageError
from mundap.training.recipe import DataSet
from tests.training.ance.parts import inferencer, recipe, weights
from tests.training.test_retriever import Alone

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("kind", ["exact", "ivf"])
def test_search_finds_the_best_chunk_of_each_document(tmp_path, kind):
    from mundap.training.ance.search import ShardVectors, nearest

    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4000, 16)).astype(np.float32)
    owners = np.repeat(np.arange(1000, dtype=np.int64), 4) * 3
    questions = rng.normal(size=(30, 16)).astype(np.float32)
    shards = []
    for number, rows in enumerate(np.split(np.arange(4000), [1600])):
        path = tmp_path / f"{number}.npy"
        np.save(path, vectors[rows])
        shards.append(ShardVectors(path, owners[rows]))
    found, scores = nearest(questions, shards, 10, kind, torch.device("cpu"))
    truth = (questions @ vectors.T).reshape(30, 1000, 4).max(2)
    best = np.argsort(-truth, 1)[:, :10]
    shared = np.mean([len(set(a) & set(b * 3)) / 10 for a, b in zip(found, best, strict=True)])
    assert shared == 1.0 if kind == "exact" else shared > 0.8
    for row in range(30):
        assert scores[row] == pytest.approx(truth[row, found[row] // 3], rel=1e-4)


@pytest.mark.parametrize("similarity", ["dot", "cosine", "l2"])
def test_approximate_search_orders_as_the_similarity_does(tmp_path, similarity):
    """Passages of very different lengths, which L2, cosine and the inner product rank differently."""
    from mundap.encoder.similarity import as_inner_product
    from mundap.training.ance.search import ShardVectors, nearest

    rng = np.random.default_rng(1)
    centres = rng.normal(size=(60, 64))
    passages = centres[rng.integers(0, 60, 4000)] + 0.7 * rng.normal(size=(4000, 64))
    passages = (passages * rng.uniform(0.8, 1.25, (4000, 1))).astype(np.float32)
    questions = (centres[:30] + 0.7 * rng.normal(size=(30, 64))).astype(np.float32)
    if similarity == "cosine":  # a cosine model's network normalises its vectors
        questions, passages = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (questions, passages))
    made = [as_inner_product(one, similarity, side)
            for one, side in ((questions, "question"), (passages, "passage"))]  # fmt: skip
    np.save(tmp_path / "p.npy", made[1])
    shards = [ShardVectors(tmp_path / "p.npy", np.arange(4000))]
    found, _ = nearest(made[0], shards, 10, "ivf", torch.device("cpu"), similarity)
    inner = questions @ passages.T
    truth = {
        "dot": inner,
        "cosine": inner / np.linalg.norm(passages, axis=1),
        "l2": -np.linalg.norm(questions[:, None] - passages, axis=2),
    }[similarity]
    best = np.argsort(-truth, 1)[:, :10]
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, best, strict=True)]) > 0.9


def test_the_best_chunk_counts_in_training(files, tmp_path):
    """MaxP: the score of a passage is the largest of its chunks', and only that chunk learns."""
    from mundap.training import towers
    from mundap.training.batches import RetrieverBatches
    from mundap.training.examples import ExampleFile
    from mundap.training.recipe import RetrieverRecipe
    from mundap.training.step import RetrieverStep
    from mundap.training.tokens import Tokens

    chosen = RetrieverRecipe(train=(DataSet(str(files / "a.jsonl")),), base_model=str(files / "start"), output_dir=str(tmp_path), batch_size=8,
                    question_length=16, passage_length=24, chunks=3, chunk_words=7, dropout=0.0, hard_negatives=2)  # fmt: skip
    model, tokenizer = towers.build(chosen)
    tokens = Tokens(tokenizer, chosen)
    batch = next(RetrieverBatches([ExampleFile(chosen.train[0], None)], chosen, tokens)._iterate(0))
    assert len(batch.passages) > batch.excluded.shape[1]
    assert max(Counter(batch.owners.tolist()).values()) == 3
    seen = RetrieverStep(model, chosen, Alone(), tokens.pad).backward(batch)
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad()

    def vectors(texts):
        return torch.cat(
            [model.question(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long)) for ids in texts]
        )

    scores = vectors(batch.questions) @ vectors(batch.passages).T
    best = torch.stack(
        [scores[:, torch.from_numpy(batch.owners == n)].amax(1) for n in range(batch.excluded.shape[1])], 1
    )
    best = best.masked_fill(torch.from_numpy(batch.excluded), -torch.inf)
    loss = torch.nn.functional.cross_entropy(best, torch.from_numpy(batch.targets))
    loss.backward()
    assert seen.loss == pytest.approx(float(loss.detach()), rel=1e-4)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(found[name], parameter.grad, rtol=1e-3, atol=2e-5), name


def test_documents_of_several_chunks_from_index_to_negatives(files, tmp_path):
    """MaxP: index with --chunks, negatives are documents, and search by document takes the best chunk."""
    from mundap.index.index import Index
    from mundap.training.ance.corpus import ShardedCorpus
    from mundap.training.ance.exchange import ExchangeFolder
    from mundap.training.ance.negatives import Generation

    rows = [
        json.dumps({"_id": f"d{n}", "title": "t", "text": " ".join(f"w{n}x{m}" for m in range(30))}) for n in range(50)
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    Index.build([tmp_path / "corpus.jsonl"], tmp_path / "i", model="none", words=7, chunks=3, sentences=False)
    index = Index(tmp_path / "i")
    assert len(index) == 150  # three of five chunks each; rows are cut too where chunks were asked for
    chosen = recipe(files, tmp_path / "i", tmp_path / "out", chunks=3, chunk_words=7)
    corpus = ShardedCorpus(chosen)
    assert all(len(np.unique(corpus.rows(shard)[1])) * 3 == len(corpus.rows(shard)[1]) for shard in corpus.shards)
    exchange = ExchangeFolder(tmp_path / "ance")
    exchange.put_weights(0, weights(chosen))
    inferencer(chosen, exchange)[0].round(0)
    found = Generation.open(exchange, 0)
    context = corpus.context(int(found.numbers[0][0]))
    assert context.text.split()[0].endswith("x0") and len(context.text.split()) == 21
    assert len(set(found.numbers[0].tolist()) - {-1}) == 20
    with pytest.raises(UsageError, match="3 chunks of 9 words"):
        ShardedCorpus(recipe(files, tmp_path / "i", tmp_path / "out", chunks=3, chunk_words=9))
