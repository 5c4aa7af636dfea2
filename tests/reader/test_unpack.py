"""A reader as the run time has it, back into a checkpoint: the same weights, or the same to within eight bits."""

import numpy as np
import pytest
from click.testing import CliRunner

from mundap import cli
from mundap.errors import ModelError
from mundap.models.folder import installed
from mundap.reader.runtime import Reader
from tests.reader.test_checkpoints import PASSAGES, QUESTION, make_own, make_plain_qa

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("precision", "most"), [("fp32", 1e-5), ("int8", 0.05)])
def test_weights_come_back(tmp_path, precision, most):
    from mundap.reader.checkpoints import open_reader
    from mundap.reader.export import export_reader

    own = make_own(tmp_path / "own")
    export_reader(tmp_path / "own", tmp_path / "onnx", precisions=[precision])
    back = open_reader(tmp_path / "onnx")
    assert (back.max_length, back.layout, back.settings["stride"]) == (own.max_length, "dpr", 96)
    theirs = back.model.state_dict()
    for name, value in own.model.state_dict().items():
        if "pooler" not in name and "position_ids" not in name:
            assert float((theirs[name] - value).abs().max()) <= most * float(value.abs().max()), name


def test_the_reader_that_ships_reads_the_same_in_torch():
    from mundap.reader.checkpoints import open_reader
    from mundap.reader.export import _difference, _Graph

    folder = installed()["reader"]
    graph = _Graph(open_reader(folder)).eval()
    rows = Reader(folder, "int8", threads=1).read(QUESTION, PASSAGES)
    assert max(_difference(graph, scored) for windows in rows for scored in windows) < 0.05


def test_training_goes_on_from_a_reader_that_is_installed_by_its_name(tmp_path, monkeypatch):
    from mundap.reader.export import export_reader
    from mundap.training import reader as training
    from mundap.training import towers
    from mundap.training.recipe import ReaderRecipe

    make_own(tmp_path / "own")
    export_reader(tmp_path / "own", tmp_path / "mine", precisions=["int8"])
    monkeypatch.setattr(towers, "installed", lambda: {"mine": tmp_path / "mine"})
    opened = training._opened(ReaderRecipe(base_model=str(tmp_path / "recipes" / "mine")))
    assert np.isclose(float(opened.model.spans.weight.detach().std()), 0.7, atol=0.2)  # no new heads


def test_it_is_converted_by_command(tmp_path):
    from mundap.reader.checkpoints import open_reader
    from mundap.reader.export import export_reader

    make_own(tmp_path / "own")
    export_reader(tmp_path / "own", tmp_path / "onnx", precisions=["int8"])
    told = CliRunner().invoke(cli.main, ["models", "convert", str(tmp_path / "onnx"), "-o", str(tmp_path / "back")])
    assert told.exit_code == 0, told.output
    assert open_reader(tmp_path / "back").model.selection is not None


def test_what_cannot_be_trained_on_says_why(tmp_path):
    from mundap.reader.checkpoints import open_reader
    from mundap.reader.export import export_reader

    make_plain_qa(tmp_path / "qa", "bert")
    export_reader(tmp_path / "qa", tmp_path / "onnx", precisions=["fp32"])
    with pytest.raises(ModelError, match="train from that checkpoint instead"):
        open_reader(tmp_path / "onnx")
    make_own(tmp_path / "mpnet", "mpnet")
    export_reader(tmp_path / "mpnet", tmp_path / "other", precisions=["fp32"])
    with pytest.raises(ModelError, match="BERT"):
        open_reader(tmp_path / "other")
