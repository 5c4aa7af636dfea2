"""The size and the shape of `src/mundap`, as the table in docs/architecture.md has them. Needs radon and extra `train`.

    python .ci/measure.py            a table
    python .ci/measure.py --json     for a script
    python .ci/measure.py --worst    the functions above radon's 10 as well, by name

A room is a package, or a module, at the top of `src/mundap`. A crossing is a call from one room into a function of
another, in the process that the command was started in; what runs while a module is imported does not count.
"""

import argparse
import ast
import contextlib
import io
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "mundap"
HIGHEST = 10  # of radon: from 11 on it gives a C
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worst", action="store_true")
    chosen = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
    branchy = above_ten()
    found = shape(trees) | {"functions above radon 10": len(branchy)} | settings() | all_crossings()
    if chosen.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:45} {value:>8,}")
    if chosen.worst:
        print(*branchy, sep="\n")


def shape(trees: dict[Path, ast.Module]) -> dict[str, float]:
    """What can be counted in the text alone."""
    from radon.raw import analyze

    lines = sum(analyze(path.read_text("utf-8")).sloc for path in trees)
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    nested = sum(len(node.generators) > 1 or _holds_another(node) for node in nodes if isinstance(node, COMPREHENSIONS))
    ternaries = sum(isinstance(node, ast.IfExp) for node in nodes)
    names = sum(_is_public(node) for tree in trees.values() for node in tree.body)
    return {
        "modules": len(trees),
        "lines": lines,
        "public names": names,
        "public names a thousand lines": round(1000 * names / lines, 1),
        "ternaries a thousand lines": round(1000 * ternaries / lines, 1),
        "nested comprehensions a thousand lines": round(1000 * nested / lines, 1),
    }


def _is_public(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_")


def _holds_another(node: ast.AST) -> bool:
    return any(isinstance(inner, COMPREHENSIONS) for inner in ast.walk(node) if inner is not node)


def above_ten() -> list[str]:
    """The functions and methods with more branches than HIGHEST, the worst first."""
    from radon.complexity import cc_visit

    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for block in cc_visit(path.read_text("utf-8")):
            if block.letter != "C" and block.complexity > HIGHEST:  # "C" is a class: the mean of its methods
                found.append((block.complexity, f"{path.relative_to(ROOT)}:{block.lineno} {block.fullname}"))
    return [f"{complexity:3} {name}" for complexity, name in sorted(found, reverse=True)]


def settings() -> dict[str, float]:
    """Keys of a recipe, options of the command line (each once a command)."""
    import click

    from mundap.cli import main as program
    from mundap.training import recipe

    def options(command: click.Command) -> int:
        if isinstance(command, click.Group):
            context = click.Context(command)
            inner = [command.get_command(context, name) for name in command.list_commands(context)]
            return sum(options(one) for one in inner if one is not None)
        return sum(isinstance(parameter, click.Option) for parameter in command.params)

    records = [one for one in vars(recipe).values() if isinstance(one, type) and is_dataclass(one)]
    keys = {field.name for record in records for field in fields(record)}
    return {"recipe keys": len(keys), "CLI options": options(program)}


def all_crossings() -> dict[str, float]:
    """Crossings of `index`, `ask`, and `train retriever` of one step with `models export`."""
    with tempfile.TemporaryDirectory(prefix="mundap-measure-") as name:
        folder = Path(name)
        (folder / "one.txt").write_text("The Han is the river that flows through Seoul.\n" * 20, "utf-8")
        index = crossings("index", str(folder / "one.txt"), "-o", str(folder / "index"))
        ask = crossings("ask", "Which river flows through Seoul?", "-i", str(folder / "index"))
        make_checkpoint(folder / "start")
        make_examples(folder / "examples.jsonl")
        train = crossings("train", "retriever", *train_options(folder))
        export = crossings("models", "export", str(folder / "run" / "model"), "-o", str(folder / "model"))
    return {
        "crossings of index, one file": index,
        "crossings of ask": ask,
        "crossings of a training step and export": train + export,
    }


def train_options(folder: Path) -> list[str]:
    """One step over a batch of eight."""
    files = ["--train", str(folder / "examples.jsonl"), "--dev", str(folder / "examples.jsonl")]
    start = ["--base-model", str(folder / "start"), "-o", str(folder / "run")]
    keys = ["batch_size=8", "max_steps=1", "epochs=1"]
    return [*files, *start, *(word for key in keys for word in ("--set", key))]


def make_checkpoint(folder: Path) -> None:
    """A BERT of two small layers, at random."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdefghijklmnopqrstuvwxyz",
        *(f"river{n}" for n in range(9)),
    ]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=512, **sizes)).save_pretrained(folder)


def make_examples(path: Path) -> None:
    """Eight examples in DPR's format, each with one positive and one hard negative."""
    rows = [
        {
            "question": f"a river{n} b",
            "answers": [f"river{n}"],
            "positive_ctxs": [{"title": "r", "text": f"c d river{n} e", "passage_id": f"p{n}"}],
            "negative_ctxs": [],
            "hard_negative_ctxs": [{"title": "s", "text": f"x y z {n}", "passage_id": f"n{n}"}],
        }
        for n in range(8)
    ]
    path.write_text(json.dumps(rows), "utf-8")


def crossings(*words: str) -> int:
    """How often calls of `mundap WORDS…` go from one room into another."""
    from mundap.cli import main as program

    counted: Counter[tuple[str, str]] = Counter()
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        profiled(counter(counted)),
    ):
        program.main(list(words), standalone_mode=False)
    return counted.total()


def counter(counted: Counter[tuple[str, str]]) -> Callable[[FrameType, str, Any], None]:
    """A profiler's hook that counts calls by the rooms they come from and go to."""

    def hook(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or (to := room(frame)) is None or frame.f_code.co_name == "<module>":
            return
        caller = frame.f_back
        while caller is not None and room(caller) is None:
            caller = caller.f_back
        if caller is None or caller.f_code.co_name == "<module>":
            return
        if (here := room(caller)) is not None and here != to:
            counted[here, to] += 1

    return hook


def room(frame: FrameType) -> str | None:
    """The room that a frame's code is in; None outside of mundap."""
    file = frame.f_code.co_filename
    prefix = f"{SOURCE}/"
    return file[len(prefix) :].partition("/")[0].removesuffix(".py") if file.startswith(prefix) else None


@contextlib.contextmanager
def profiled(hook: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """The hook in this thread and in those that are started meanwhile."""
    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


if __name__ == "__main__":
    main()
