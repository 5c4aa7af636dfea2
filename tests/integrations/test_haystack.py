import asyncio

import pytest

from mundap import Index
from mundap.errors import UsageError

pytest.importorskip("haystack", reason="needs the extra `haystack`")

from haystack import Pipeline
from haystack.components.builders import PromptBuilder
from haystack.components.joiners import DocumentJoiner
from haystack.core.serialization import component_from_dict, component_to_dict

from mundap.integrations.haystack import MundapRetriever


def condition(field, value, operator="=="):
    return {"field": field, "operator": operator, "value": value}


def found(retriever, question, **options):
    return [one.meta["document"] for one in retriever.run(question, **options)["documents"]]


def test_documents_have_text_id_score_and_meta(folder):
    hit = Index(folder).search("river", 1)[0]
    document = MundapRetriever(folder, top_k=1).run("river")["documents"][0]
    assert (document.id, document.content, document.score) == (hit.passage.id, hit.passage.text, hit.score)
    known = {"bm25": hit.bm25, "dense": hit.dense, "rank": 1, "source": hit.passage.source, "start": hit.passage.start}
    assert known.items() <= document.meta.items()
    assert document.to_dict()["source"] == hit.passage.source


def test_filters_in_haystacks_words(folder):
    retriever = MundapRetriever(folder, mode="bm25")
    assert set(found(retriever, "river")) == {"one.txt", "two.md"}
    assert found(retriever, "river", filters=condition("meta.language", "en")) == ["two.md"]
    both = {"operator": "AND", "conditions": [condition("meta.language", "en"), condition("topic", "geo")]}
    assert found(retriever, "river", filters=both) == ["two.md"]
    either = condition("meta.document", ["one.txt", "nothing"], "in")
    assert found(retriever, "river", filters=either) == ["one.txt"]
    source = retriever.run("river", top_k=1)["documents"][0].meta["source"]
    assert len(found(retriever, "river", filters=condition("meta.source", source))) == 1
    assert found(retriever, "river", filters=condition("meta.source", "*")) == []  # a name, not a pattern


@pytest.mark.parametrize(
    "filters",
    [
        condition("meta.language", "en", "!="),
        condition("meta.language", "en", ">"),
        condition("meta.language", [], "in"),
        condition("meta.language", ["en", "ko"], "in"),
        condition(None, "en"),
        {"operator": "OR", "conditions": [condition("a", "b")]},
        {"operator": "AND", "conditions": ["a"]},
        {"operator": "AND", "conditions": [condition("a", "b"), condition("a", "c")]},
        {"operator": "AND", "conditions": [condition("document", "b"), condition("document", "c")]},
        {"language": "en"},
    ],
)
def test_filters_that_cannot_be_obeyed_are_refused(folder, filters):
    with pytest.raises(UsageError, match="^filters: "):
        MundapRetriever(folder, filters=filters)
    with pytest.raises(UsageError, match="^filters: "):
        MundapRetriever(folder).run("river", filters=filters)


def test_a_component_comes_back_from_what_it_was_saved_as(folder, tiny_reader):
    made = MundapRetriever(folder, 3, "dense", condition("meta.language", "en"), True, tiny_reader)
    saved = component_to_dict(made, "retriever")
    assert saved["init_parameters"]["index"] == str(folder)
    again = component_from_dict(MundapRetriever, saved, "retriever")
    assert component_to_dict(again, "retriever") == saved
    assert again.run("river") == made.run("river")


def test_a_pipeline_saved_and_loaded(folder):
    pipeline = Pipeline()
    pipeline.add_component("bm25", MundapRetriever(folder, top_k=2, mode="bm25"))
    pipeline.add_component("dense", MundapRetriever(folder, top_k=2, mode="dense"))
    pipeline.add_component("join", DocumentJoiner())
    pipeline.add_component(
        "prompt", PromptBuilder("{% for d in documents %}{{ d.content }}\n{% endfor %}{{ question }}")
    )
    pipeline.connect("bm25.documents", "join.documents")
    pipeline.connect("dense.documents", "join.documents")
    pipeline.connect("join.documents", "prompt.documents")
    question = "한강은 어디에 흐르나?"
    inputs = {"bm25": {"query": question}, "dense": {"query": question}, "prompt": {"question": question}}
    prompt = pipeline.run(inputs)["prompt"]["prompt"]
    assert "서울은 대한민국의 수도이다. 한강이 흐른다.\n" in prompt and prompt.endswith(question)
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["mundap.integrations.*"])
    assert loaded.run(inputs)["prompt"]["prompt"] == prompt


def test_async_gives_the_same(folder):
    retriever = MundapRetriever(folder, top_k=3)
    assert asyncio.run(retriever.run_async("river")) == retriever.run("river")
    assert asyncio.run(retriever.run_async("river", top_k=1)) == retriever.run("river", top_k=1)


def test_bad_input(folder):
    with pytest.raises(UsageError, match="the question is empty"):
        MundapRetriever(folder).run(" ")
    with pytest.raises(UsageError, match="choose between 1 and"):
        MundapRetriever(folder).run("river", top_k=0)
