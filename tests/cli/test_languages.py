"""The program in Korean."""

import ast
import gettext
import inspect
import math
import os
import re
import subprocess
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from mundap import cli
from mundap.cli import _VERBS, main
from mundap.errors import Message
from tests.program import START, mundap

SOURCE = Path(cli.__file__).parent.parent
MESSAGES = SOURCE / "locale" / "ko" / "LC_MESSAGES"
HANGUL = re.compile("[가-힣]")


def run(*words, language="ko", folder=None):
    """In a process of its own: for the help, which stays in the language in which it was first asked for."""
    environment = {**os.environ, "LANGUAGE": language, "LANG": "C.UTF-8"}
    command = [*START, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=folder, stdin=subprocess.DEVNULL
    )


def run_here(*words, language="ko", folder=None):
    """Within this process, which loads the analyser of Korean once."""
    code, out, errors = mundap(*words, language=language, cwd=folder)
    return SimpleNamespace(returncode=code, stdout=out, stderr=errors)


@pytest.fixture(scope="module")
def catalog():
    from babel.messages.pofile import read_po

    return read_po(BytesIO((MESSAGES / "mundap.po").read_bytes()), locale="ko")


def test_the_compiled_messages_are_those_of_the_source(catalog):
    with (MESSAGES / "mundap.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for message in catalog:
        if isinstance(message.id, str) and message.id:
            assert compiled.gettext(message.id) == message.string, "run: make messages"
        elif message.id:
            assert compiled.ngettext(*message.id, 2) == message.string[0], "run: make messages"


def test_every_message_is_translated_with_its_facts(catalog):
    fact = re.compile(r"\{(\w+)")
    for message in catalog:
        if not message.id:
            continue
        english = message.id if isinstance(message.id, str) else message.id[1]
        korean = message.string if isinstance(message.string, str) else message.string[0]
        assert HANGUL.search(korean), english
        assert set(fact.findall(english)) == set(fact.findall(korean)), english


def commands(command):
    """A command and, of a group, all that are in it."""
    yield command
    if isinstance(command, click.Group):
        for part in command.commands.values():
            yield from commands(part)


def help_of(verb):
    """Every text that `mundap VERB --help` shows, also for the commands of a group, and its line in the list of all."""
    texts = [_VERBS[verb][2]]
    for command in commands(main.get_command(click.Context(main), verb)):
        texts.append(inspect.cleandoc(command.help))
        texts += [option.help for option in command.params if isinstance(option, click.Option)]
    return texts


@pytest.mark.parametrize("verb", _VERBS)
def test_the_help_is_whole_in_korean(verb, catalog):
    assert [text for text in help_of(verb) if catalog.get(text) is None] == []


def test_examples_stay_on_lines_of_their_own(catalog):
    for message in catalog:
        if isinstance(message.id, str):  # a backspace tells click not to wrap what comes next
            assert message.id.count("\b") == message.string.count("\b"), message.id


def test_korean_help_is_wrapped_by_columns():
    text = run("train", "ance", "--help").stdout
    assert "    mundap train ance recipe.toml --only trainer\n" in text
    prose = [line for line in text.splitlines() if HANGUL.search(line)]
    columns = [sum(2 if HANGUL.match(one) else 1 for one in line) for line in prose]
    assert 70 < max(columns) <= 80


def test_the_option_puts_all_of_the_help_into_korean():
    text = run("--lang", "ko", "--help", language="en").stdout
    assert [line for line in text.splitlines()[1:] if line and not HANGUL.search(line)] == []


def test_a_misspelt_command_in_korean():
    assert "혹시 'search'인가요?" in run("serch").stderr


def words_of(folder):
    """Every string in the Python files of a folder, and the nouns that are counted, with the form for many."""
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
                yield node.value.partition(" (")[0]  # what is said in brackets is not looked up
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("count") and len(node.args) == 2:
                noun = node.args[1]
                if isinstance(noun, ast.Constant):
                    yield from (f"{{n:,}} {noun.value}", f"{{n:,}} {noun.value}s")


def test_no_message_is_obsolete(catalog):
    shown = {text for verb in _VERBS for text in help_of(verb)} | {inspect.cleandoc(main.help)}
    shown.update(words_of(SOURCE))
    shown.update(words_of(Path(click.__file__).parent))  # its own messages are looked up in our catalogue
    english = [text for message in catalog if message.id for text in listed(message.id)]
    assert [text for text in english if text not in shown] == []


def listed(texts):
    return [texts] if isinstance(texts, str) else list(texts)


def test_korean_by_the_environment_and_by_the_option(tmp_path):
    (tmp_path / "a.txt").write_text("서울은 수도다.", "utf-8")
    made = run("index", "a.txt", "--model", "none", folder=tmp_path)
    assert "문서 1건, 지문 1개" in made.stdout
    assert "온전합니다" in run("--lang", "ko", "verify", language="en", folder=tmp_path).stdout
    assert "intact" in run("--lang", "en", "verify", folder=tmp_path).stdout
    assert "찾은 것이 없습니다" in run_here("search", "zzz", folder=tmp_path).stdout
    assert "질문이 비어" in run_here("search", " ", folder=tmp_path).stderr


def test_errors_in_korean(tmp_path):
    missing = run_here("info", folder=tmp_path)
    assert "그런 파일이나 폴더가 없습니다" in run_here("index", "nothing.txt", folder=tmp_path).stderr
    assert missing.returncode == 1 and "색인이 없습니다" in missing.stderr and str(tmp_path) in missing.stderr
    assert "오류" in run("nonsense").stderr


def test_a_message_is_its_english_words_and_keeps_its_facts():
    said = Message("{path} is missing", path="a")
    assert said == "a is missing" and said.message == "{path} is missing" and said.facts == {"path": "a"}
    assert Message("{not a fact}") == "{not a fact}"


def test_what_was_skipped_in_korean(tmp_path):
    (tmp_path / "a.txt").write_text("서울은 수도다.", "utf-8")
    (tmp_path / "b.jsonl").write_text('{"id": "1", "text": "부산은 항구다."}\n{\n', "utf-8")
    (tmp_path / "c.jsonl").write_text(
        '{"id": "1", "text": "인천도 항구다."}\n{"id": "1", "text": "또 있다."}\n', "utf-8"
    )
    (tmp_path / "d.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    made = run_here("index", ".", "--model", "none", folder=tmp_path)
    assert made.returncode == 3
    assert re.search(r"건너뜀 b\.jsonl:2: JSON이 아님 \(.+\)", made.stderr)
    assert "건너뜀 c.jsonl: ID '1'이(가) 겹칩니다: b.jsonl에 이미 있습니다" in made.stderr
    assert "파일 1개 제외: 그림" in made.stderr
    assert "JSON이 아님" in run_here("list", "--skipped", folder=tmp_path).stdout
    gone = run_here("delete", "nothing", folder=tmp_path)
    assert "건너뜀 nothing: 이 ID의 문서가 없습니다." in gone.stderr


def test_damage_in_korean(tmp_path):
    (tmp_path / "a.txt").write_text("서울은 수도다.", "utf-8")
    run_here("index", "a.txt", "--model", "none", folder=tmp_path)
    part = next((tmp_path / ".mundap" / "segments").glob("*/*passages*"))
    part.write_bytes(part.read_bytes() + b"more")
    found = run_here("verify", folder=tmp_path).stderr
    assert re.search(r"파일의 크기가 \d+바이트가 아니라 \d+바이트입니다", found) and "손상되었습니다" in found
    # A problem within an error, and both in the language of the user.
    repaired = run_here("verify", "--repair", folder=tmp_path).stderr
    assert re.search(r"바이트입니다\. 한 벌만 저장된 것은", repaired)
    assert "is missing" not in repaired and " bytes" not in repaired


def test_a_question_that_the_reader_cannot_read_in_korean(tmp_path):
    (tmp_path / "a.txt").write_text("서울은 대한민국의 수도다.", "utf-8")
    run_here("index", "a.txt", "--model", "none", folder=tmp_path)
    said = run_here("ask", "수도는?", "--reader", "reader", folder=tmp_path).stdout
    assert "리더(reader)가 영어만 알아서 지문을 읽지 못했습니다" in said and "찾은 것 가운데 가장 좋은 지문" in said
    ordered = run_here("search", "수도는?", "--rerank", "--reader", "reader", folder=tmp_path).stderr
    assert "리더(reader)가 영어만 알아서 검색 순서 그대로" in ordered


@pytest.mark.parametrize(("language", "words"), [("en", "wrong answers for free"), ("ko", "공짜 오답")])
def test_the_tour(language, words, example_index):
    done = run_here("tour", "--no-pause", "-i", example_index.path, language=language)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert words in text
    assert (
        re.search(r"1\.1 +█+ 떡볶이를", text) and re.search(r"0\.0 +나는", text) and re.search(r"0\.4 +█+ 가장", text)
    )
    assert "7-8   0.97 x 0.92 = 0.8924" in text
    assert re.search(r"q1 +\[", text)
    share, loss = map(float, re.search(r"loss    -ln ([\d.]+) = ([\d.]+)", text).groups())
    assert loss == pytest.approx(-math.log(share), abs=1e-3)
    assert len(re.findall(r"^\d\. ", text, re.MULTILINE)) == 7
    assert text.count("$ mundap") == 7
    asked = {
        "en": "How tall is the Eiffel Tower?  ->  ",
        "ko": "기생충이 칸 영화제에서 받은 상 이름은?  ->  황금종려상",
    }
    assert asked[language] in text
    assert "Sauron" in text or "Lord of the Rings" in text
