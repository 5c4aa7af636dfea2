"""What only an engine can get wrong: foreign collections, lost connections, two writers."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from mundap.engines import Address, build, connect, open_index
from mundap.engines.engine import Where
from mundap.engines.milvus import Milvus, _has_full_text
from mundap.engines.state import SETTINGS
from mundap.engines.writer import EngineWriter
from mundap.errors import EngineError, IndexLocked, MundapError, UsageError
from mundap.index.build import Options
from mundap.records import Skipping


@pytest.fixture
def rows(tmp_path):
    """A file of 1,500 rows, which go out in three batches."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"_id": f"r{n}", "text": f"music row{n} river"}) + "\n" for n in range(1500)))
    return path


def held(place):
    return sorted(passage.id for passage in open_index(place).passages())


def test_a_foreign_collection_is_refused_and_not_touched(engine_place, corpus, tiny_model):
    engine = connect(engine_place)
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("v", DataType.FLOAT_VECTOR, dim=4)
    params = engine._client.prepare_index_params()
    params.add_index("v", index_type="FLAT", metric_type="L2")
    engine._client.create_collection(engine._name, schema=schema, index_params=params)
    engine._client.insert(engine._name, [{"id": 1, "v": [0.0, 1.0, 2.0, 3.0]}])
    for fresh in (False, True):
        with pytest.raises(EngineError, match="mundap did not make. It was not touched"):
            build.build([corpus], engine_place, Options(model=str(tiny_model)), fresh)
    with pytest.raises(EngineError, match="did not make"):
        open_index(engine_place)
    found = engine._client.query(engine._name, filter="id == 1", output_fields=["id"], consistency_level="Strong")
    assert len(found) == 1


def test_foreign_notes_are_refused_and_not_touched(engine_place, corpus, tiny_model):
    """A collection that is called as ours for notes is, and has other fields."""
    engine = connect(engine_place)
    engine._client.create_collection(engine._notes_name, dimension=4)
    for fresh in (False, True):
        with pytest.raises(EngineError, match=f"collection {engine._notes_name} already that mundap did not make"):
            build.build([corpus], engine_place, Options(model=str(tiny_model)), fresh)
    assert engine._client.list_collections() == [engine._notes_name]


@pytest.mark.parametrize("after", [1, 2])
def test_a_build_that_broke_off_goes_on(engine_place, rows, tiny_model, monkeypatch, after):
    options = Options(model=str(tiny_model))
    monkeypatch.setattr("mundap.engines.writer.CHECKPOINT_PASSAGES", 500)
    sent = []
    real = Milvus.upsert

    def breaking(self, some):
        if len(sent) == after:
            real(self, some[: len(some) // 2])  # half of it arrived, and no answer came
            raise EngineError("the connection was lost")
        sent.append(len(some))
        real(self, some)

    monkeypatch.setattr(Milvus, "upsert", breaking)
    with pytest.raises(EngineError, match="lost"):
        build.build([rows], engine_place, options)
    monkeypatch.setattr(Milvus, "upsert", real)
    report = build.build([rows], engine_place, options)
    assert report.resumed and report.passages == report.documents == 1500 and report.skipped == []
    assert report.added < 1500  # what was complete was not sent again
    assert held(engine_place) == sorted(f"r{n}" for n in range(1500))
    assert build.build([rows], engine_place, options).unchanged == 1


def test_what_no_checkpoint_lists_is_taken_away(engine_place, corpus, tiny_model):
    build.build([corpus], engine_place, Options(model=str(tiny_model)))
    engine = connect(engine_place)
    note = engine.settings()
    # As if a checkpoint had written its rows and its notes on sources, and then died: none is complete.
    engine.write_notes({SETTINGS: {**note, "batch": 0}})
    writer = EngineWriter(engine, None, {"verb": "test"}, False, Skipping())
    assert engine.count(Where()) == 0 and writer.corpus.states == {}
    writer.finish()
    assert build.build([corpus], engine_place, Options(model=str(tiny_model))).passages == 10


def test_one_writer_at_a_time(engine_place, corpus, tiny_model):
    build.build([corpus], engine_place, Options(model=str(tiny_model)))
    engine = connect(engine_place)
    note = engine.settings()
    engine.write_notes({SETTINGS: {**note, "host": "elsewhere", "process": 7, "seen": time.time()}})
    with pytest.raises(IndexLocked, match="process 7 on elsewhere is writing"):
        build.delete(engine_place, ["two.md"])
    engine.write_notes({SETTINGS: {**note, "host": "elsewhere", "process": 7, "seen": time.time() - 1000}})
    assert build.delete(engine_place, ["two.md"]).removed == 1


def test_a_text_too_long_is_skipped(engine_place, tmp_path, tiny_model):
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"_id": "long", "text": "river " * 20_000}) + '\n{"_id": "short", "text": "river"}\n')
    report = build.build([path], engine_place, Options(model=str(tiny_model)))
    assert report.passages == 1 and "bytes" in report.skipped[0].reason


def test_a_build_killed_before_its_first_row_goes_on(engine_place, corpus, tiny_model, monkeypatch):
    options = Options(model=str(tiny_model))

    def killed(self, note):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(EngineWriter, "_open", killed)  # the collections are there, and nothing in them
        with pytest.raises(KeyboardInterrupt):
            build.build([corpus], engine_place, options)
    assert build.build([corpus], engine_place, options).passages == 10


def test_an_unfinished_index_says_so(engine_place, corpus, tiny_model):
    build.build([corpus], engine_place, Options(model=str(tiny_model)))
    assert open_index(engine_place).info()["unfinished"] == "no"
    engine = connect(engine_place)
    engine.write_notes({SETTINGS: {**engine.settings(), "job": {"verb": "index"}}})
    assert "the same command goes on" in open_index(engine_place).info()["unfinished"]


def test_a_served_index_is_there_again_when_its_server_is(engine_place, corpus, tiny_model, monkeypatch):
    pytest.importorskip("fastapi", reason="needs the extra `serve`")
    from mundap.serving import indexes

    build.build([corpus], engine_place, Options(model=str(tiny_model)))
    monkeypatch.setattr(indexes, "_ENGINE_LOOK_SECONDS", -1.0)
    served = indexes.ServedEngine("books", engine_place)

    async def looked():
        served.look()
        await asyncio.wait([served._reopening])
        await asyncio.sleep(0)
        return served._failure

    def away(self):
        raise EngineError("it does not answer")

    async def watch():
        with monkeypatch.context() as patched:
            patched.setattr(Milvus, "settings", away)
            assert "does not answer" in str(await looked())
            assert "does not answer" in str(await looked())  # it is looked for all the same
        assert await looked() is None
        assert len(served.index()) == 10

    asyncio.run(watch())


HOLDING = (
    "import sys; from mundap.engines import connect; connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
)


def test_milvus_lite_of_another_process(tmp_path):
    pytest.importorskip("milvus_lite", reason="pip install 'mundap[milvus]'")
    place = f"milvus+lite://{tmp_path}/held.db"
    command = [sys.executable, "-c", HOLDING, place]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(IndexLocked, match="another process has it open"):
            connect(place)
        holder.stdin.close()
    connect(place)


def test_milvus_lite_where_it_cannot_be(tmp_path):
    pytest.importorskip("milvus_lite", reason="pip install 'mundap[milvus]'")
    (tmp_path / "file.db").write_text("something else")
    with pytest.raises(EngineError, match=r"file.db cannot be opened .*must be a folder that milvus-lite 3 made"):
        connect(f"milvus+lite://{tmp_path}/file.db")
    assert (tmp_path / "file.db").read_text() == "something else"
    with pytest.raises(EngineError, match="there is no folder .*nowhere. Make it first"):
        connect(f"milvus+lite://{tmp_path}/nowhere/i.db")


def test_no_server():
    with pytest.raises(EngineError, match=r"127.0.0.1:1/x does not answer .*Check host, port and TLS"):
        connect("milvus://127.0.0.1:1/x")


def test_full_text_by_version():
    assert not _has_full_text("v2.3.5-lite") and not _has_full_text("2.4.17") and not _has_full_text("unknown")
    assert _has_full_text("v2.5.0") and _has_full_text("2.6.1-dev") and _has_full_text("3.0.0")
    assert _has_full_text("milvus_lite-3.2.2")


def test_an_old_server_takes_no_index_without_a_model(corpus, server_place):
    with pytest.raises(UsageError, match="needs BM25, but the server has Milvus v2.3.5"):
        build.build([corpus], server_place, Options(model="none"))


class Proxy:
    """A connection to the server that can be cut."""

    def __init__(self, port):
        self._to = port
        self._open = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                here, _ = self._listening.accept()
            except OSError:
                return
            there = socket.create_connection(("127.0.0.1", self._to))
            self._open += [here, there]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one, other):
        try:
            while data := one.recv(1 << 16):
                other.sendall(data)
        except OSError:
            pass

    def cut(self):
        self._listening.close()
        for one in self._open:
            one.close()


def test_a_connection_cut_in_the_middle(rows, tiny_model, monkeypatch, server_place):
    port = int(os.environ["MUNDAP_TEST_MILVUS"].rpartition(":")[2])
    proxy = Proxy(port)
    through = server_place.replace(f":{port}/", f":{proxy.port}/")
    real = Milvus.upsert

    def cutting(self, some):
        real(self, some)
        proxy.cut()
        self._at = Address.parse(through.replace("timeout=120", "timeout=5&patience=3"))  # not before: it may be busy

    monkeypatch.setattr(Milvus, "upsert", cutting)
    with pytest.raises(MundapError, match="does not answer"):
        build.build([rows], through, Options(model=str(tiny_model)))
    monkeypatch.setattr(Milvus, "upsert", real)
    report = build.build([rows], server_place, Options(model=str(tiny_model)))
    assert report.resumed and report.passages == 1500
    assert held(server_place) == sorted(f"r{n}" for n in range(1500))
