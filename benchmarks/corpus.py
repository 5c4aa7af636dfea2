"""Make the passages and questions that the BM25 benchmark runs on, out of Debian documentation packages.

The speed of a BM25 index depends on how real words are spread, so made-up text will not do, and the
passages of Wikipedia that question answering is usually measured on (``psgs_w100.tsv``) are a download of
many gigabytes. Debian's documentation packages hold tens of millions of words of English prose, are fetched
by name from whatever mirror the machine already uses, and are the same for everyone on the same release.

This needs a Debian or Ubuntu machine (``apt-get`` and ``dpkg-deb``) and nothing beyond Python itself::

    python benchmarks/corpus.py -o ~/mundap-runs/bench/passages.tsv --passages 220000 \
        --questions ~/mundap-runs/bench/questions.txt -n 2000

The passages file has the shape of ``psgs_w100.tsv``: a header, then ``id<TAB>text<TAB>title`` with each text
exactly 100 words long. No paragraph and no passage is used twice. The packages stay in the cache directory,
so a second run fetches nothing. The questions are for measuring speed, not quality: three in four are a few
words in a row from some passage, one in four is a real question that a passage asks.
"""

from __future__ import annotations

import argparse
import collections
import csv
import gzip
import hashlib
import html.parser
import logging
import multiprocessing
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence

log = logging.getLogger("corpus")

WORDS_PER_PASSAGE = 100
MIN_BLOCK_WORDS = 10
MAX_PASSAGES_PER_PACKAGE = 12_000
MAX_FILE_BYTES = 64_000_000

PACKAGES: tuple[str, ...] = tuple(
    """
        dict-gcide dict-wn dict-foldoc dict-jargon dict-devil anarchism abs-guide fortunes
        debian-reference-en debian-policy debian-faq developers-reference harden-doc doc-debian
        live-manual-html linux-doc-6.1 manpages manpages-dev freebsd-manpages perl-doc git-doc bash-doc
        zsh-doc vim-doc emacs-common python3.11-doc python-django-doc python-sqlalchemy-doc
        python-pandas-doc python-scipy-doc python-sklearn-doc python-sympy-doc python-astropy-doc
        twisted-doc python-nipype-doc python-dask-doc python-distributed-doc python-xarray-doc
        python-pytest-doc python-celery-doc python-scrapy-doc python-djangorestframework-doc
        python-ipython-doc python-werkzeug-doc python-flask-doc python-tornado-doc python-ase-doc
        python-mdanalysis-doc python-pygame-doc python-pil-doc python-openstacksdk-doc pypy3-doc numba-doc
        sphinx-doc docutils-doc buildbot-doc pylint-doc snakemake-doc borgbackup2-doc nova-doc neutron-doc
        cinder-doc ironic-doc keystone-doc glance-doc heat-doc swift-doc manila-doc octavia-doc
        postgresql-doc-15 sqlite3-doc apache2-doc exim4-doc-html postfix-doc bind9-doc krb5-doc kea-doc
        openafs-doc openvswitch-doc slurm-wlm-doc rsyslog-doc varnish-doc shorewall-doc icinga2-doc
        ganeti-doc xen-doc lemonldap-ng-doc proftpd-doc db5.3-doc postgis-doc groonga-doc dpdk-doc frr-doc
        bird2-doc knot-resolver-doc ntpsec-doc nut-doc rt5-doc-html bacula-doc docker-doc derby-doc
        mapproxy-doc weechat-doc janus-doc fwupd-doc octave-doc r-doc-html maxima-doc gap-doc singular-doc
        giac-doc gnuplot-doc yade-doc gmsh-doc topcat-doc stilts-doc saods9-doc nlopt-doc swi-prolog-doc
        ada-reference-manual-2020 ghc-doc racket-doc gnome-user-docs gimp-help-en libreoffice-help-en-us
        gnumeric-doc kicad-doc-en linuxcnc-doc-en lilypond-doc-html csound-doc snd-doc povray-doc
        imagemagick-6-doc png-definitive-guide openjdk-17-doc libboost1.81-doc libstdc++-12-doc
        qtbase5-doc-html gnutls-doc wireshark-doc erlang-doc rust-doc mh-book xorg-docs mit-scheme-doc
        sbcl-doc tcl8.6-doc nodejs-doc cmake-doc llvm-19-doc clang-19-doc tomcat10-docs ant-doc jmeter-help
        c++-annotations-html gtkmm-documentation gnome-devel-docs lazarus-doc-2.2 ghostscript-doc
    """.split()
)

STOP_WORDS = frozenset(
    """
        a about after all also an and any are as at be been but by can do does each for from had has have he
        her his i if in into is it its may more must no not of on one only or other out s she should so some
        such than that the their them then there these they this to up use used was we were what when which
        who will with would you your
    """.split()
)

# Tags that stand inside a sentence (HTML, DocBook and Mallard); any other tag ends the block of text.
INLINE_TAGS = frozenset(
    """
        a abbr acronym application b big bdi bdo cite citetitle dfn em emphasis firstterm font glossterm gui
        guibutton guilabel guimenu guimenuitem guiseq i ins kbd key keycap label link mark menuchoice phrase
        productname q quote s samp small span strong sub sup tt u ulink userinput var wbr xref
    """.split()
)
DROPPED_TAGS = frozenset(
    [
        "code",
        "footer",
        "head",
        "listing",
        "math",
        "nav",
        "pre",
        "programlisting",
        "screen",
        "script",
        "style",
        "svg",
        "synopsis",
        "textarea",
    ]
)

HTML_SUFFIXES = frozenset({".html", ".htm", ".xhtml", ".page", ".docbook"})
PLAIN_SUFFIXES = frozenset({"", ".txt", ".text", ".rst", ".md", ".pod", ".doc"})
TEXT_ROOTS = ("usr/share/", "usr/lib/libreoffice/help/")
SKIPPED_PATH = re.compile(
    # Lists, not prose; the source a page was made from; what other packages hold too; other languages.
    r"(?i)(^|/)(changelog|changes|copyright|copying|license|licence|authors|todo|index\.cache|genindex|"
    r"globals|functions|namespacemembers|annotated|hierarchy|classes|inherits|files|py-modindex|searchindex)"
    r"[^/]*$|(-members|_source|-source|_8h|_8hpp|_8cpp)\.html|(^|/)(_sources|_modules|_static|search|src|"
    r"locale|lintian|licenses|bug|icons|pixmaps|examples)/|"
    r"[/._-](ca|cs|da|de|el|es|fi|fr|hu|id|it|ja|ko|lt|nb|nl|no|pl|pt|pt[-_]br|ro|ru|sk|sv|tr|uk|vi|"
    r"zh|zh[-_](cn|tw))(/|\.(html?|txt)(\.gz)?$)"
)

_WORD = re.compile(r"[A-Za-z]+(?:['\u2019-][A-Za-z]+)*")
_EDGES = "\"'`()[]{}<>*_.,;:!?\u2018\u2019\u201c\u201d\u2026"
_PARAGRAPHS = re.compile(r"\n\s*\n")
_QUESTION = re.compile(
    r"(?:^|(?<=[.!?] ))((?:What|Who|When|Where|Why|Which|How|Is|Are|Can|Does|Do)\s[^.?!;:\"()]{10,110}\?)"
)
_CLEAN_WORD = re.compile(r"[A-Za-z0-9]+(?:['-][A-Za-z0-9]+)*")

Document = tuple[str, str, list[str]]


class PageParser(html.parser.HTMLParser):
    """Collects the title and the blocks of running text of a page.

    Attributes:
        title: The page's ``<title>``, or else its first heading.
        blocks: The text between tags that break the line, whitespace not yet normalised.
    """

    def __init__(self) -> None:
        """Starts with no text."""
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.blocks: list[str] = []
        self._block: list[str] = []
        self._title: list[str] = []
        self._dropped: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Ends the block, or starts a part that is dropped.

        Args:
            tag: The tag's name in lower case.
            attrs: The tag's attributes, not used.
        """
        if tag in ("title", "h1") and not self.title:
            self._in_title = True
        if tag in DROPPED_TAGS:
            self._dropped.append(tag)
        elif tag == "body":
            self._dropped.clear()
        if tag not in INLINE_TAGS and tag != "code":
            self._end_block()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Ends the block at a tag that closes itself.

        Args:
            tag: The tag's name in lower case.
            attrs: The tag's attributes, not used.
        """
        if tag not in INLINE_TAGS and tag != "code":
            self._end_block()

    def handle_endtag(self, tag: str) -> None:
        """Ends the block, the title or the part that is dropped.

        Args:
            tag: The tag's name in lower case.
        """
        if self._in_title and tag in ("title", "h1"):
            self._in_title = False
            self.title = " ".join("".join(self._title).split())
            self._title.clear()
        if tag in self._dropped:
            while self._dropped.pop() != tag:
                pass
        if tag not in INLINE_TAGS and tag != "code":
            self._end_block()

    def handle_data(self, data: str) -> None:
        """Keeps the text unless it is inside a dropped part.

        Args:
            data: The text.
        """
        if self._in_title:
            self._title.append(data)
        elif not self._dropped:
            self._block.append(data)

    def _end_block(self) -> None:
        if self._block:
            self.blocks.append("".join(self._block))
            self._block.clear()


def page_blocks(text: str) -> tuple[str, list[str]]:
    """Splits a page of HTML, DocBook or Mallard.

    Args:
        text: The page.

    Returns:
        The page's title, which may be empty, and its blocks.
    """
    parser = PageParser()
    parser.feed(text)
    parser.close()
    return parser.title, parser.blocks


def man_blocks(text: str) -> list[str]:
    """Splits a manual page written in roff, keeping the running text only.

    Args:
        text: The manual page.

    Returns:
        Its blocks.
    """
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith((".", "'")):
            macro, _, rest = line[1:].strip().partition(" ")
            if macro in ("B", "I", "BR", "RB", "IR", "RI", "BI", "IB", "SM"):
                parts = re.findall(r'"([^"]*)"|(\S+)', rest)
                glue = " " if len(macro) == 1 else ""
                lines.append(glue.join(quoted or bare for quoted, bare in parts))
            elif macro not in ("UR", "UE", "Nm", '\\"'):
                lines.append("")
        else:
            lines.append(line)
    # What Pod::Man defines for quotes, and then the common escapes of roff.
    text = re.sub(r"\\\*\((?:C[`']|[LR]\"|--)|\\\*\((?:PI|\^[a-z]|.{2})", "", "\n".join(lines))
    text = re.sub(r"\\f(?:\[[^\]]*\]|\(..|.)|\\s[+-]?\d|\\[&|^%:/,]|\\c", "", text)
    text = re.sub(r"\\\((?:aq|cq|oq)", "'", re.sub(r"\\\((?:em|en|hy)", "-", text))
    text = re.sub(r"\\\((?:lq|rq|dq)", '"', text).replace("\\-", "-").replace("\\ ", " ")
    return _PARAGRAPHS.split(text)


def plain_blocks(text: str) -> list[str]:
    """Splits plain text at blank lines, and a file of sayings at the lines that part them.

    Args:
        text: The text.

    Returns:
        Its blocks.
    """
    # POD and reStructuredText mark words up inside the sentence: B<word>, ``word``, :ref:`word`.
    text = re.sub(r"\b[BCEFILSX]<+\s?([^<>]*)\s?>+", r"\1", text)
    text = re.sub(r":[a-z:]+:`|``", "", text)
    # Info points to other places as *note title: place.
    text = re.sub(r"\*[Nn]ote\s+([^:]{1,80}):+(?:\s*[0-9a-f]+\.)?", r"\1", text)
    return _PARAGRAPHS.split(re.sub(r"(?m)^%$", "", text))


def dictionary_blocks(text: str) -> list[str]:
    """Splits a dictionary in the format of the DICT server.

    Args:
        text: The dictionary.

    Returns:
        Its blocks, without how words are pronounced, where an entry came from and the marks of references.
    """
    text = re.sub(r"\[[^\]\n]*(?:Webster|PJC|WordNet)[^\]\n]*\]|\\[^\\\n]*\\,?", "", text)
    return _PARAGRAPHS.split(re.sub(r"[{}]", "", text))


def prose(block: str) -> str | None:
    """Tells running English text from the rest.

    Args:
        block: A block of text as it was found.

    Returns:
        The block with its whitespace normalised, or None if it is not prose.
    """
    words = block.split()
    if len(words) < MIN_BLOCK_WORDS:
        return None
    bare = [word.strip(_EDGES) for word in words]
    alphabetic = sum(1 for word in bare if _WORD.fullmatch(word))
    if alphabetic < 0.7 * len(words):
        return None
    if sum(1 for word in bare if word.lower() in STOP_WORDS) < 0.2 * len(words):
        return None
    if any(len(word) > 60 for word in words):
        return None
    return " ".join(words)


def name_title(path: str) -> str:
    """Makes a title of a file's name.

    Args:
        path: The file's path inside the package.

    Returns:
        The name without its suffixes and with spaces for the punctuation.
    """
    stem = pathlib.PurePosixPath(path).name.split(".")[0]
    return " ".join(re.split(r"[\W_]+", stem)).strip() or "Untitled"


def read_document(path: str, data: bytes) -> Document | None:
    """Reads one file of a package.

    Args:
        path: The file's path inside the package.
        data: What the file holds.

    Returns:
        The kind of file, the title and the blocks of prose, or None if it is of no known kind or has none.
    """
    if path.endswith((".gz", ".dz")):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return None
        path = path[:-3]
    if b"\0" in data[:4096] or len(data) > MAX_FILE_BYTES:
        return None
    kind = pathlib.PurePosixPath(path).suffix.lower()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    title = ""
    if kind in HTML_SUFFIXES or text[:200].lstrip().lower().startswith(("<!doctype html", "<html")):
        title, raw = page_blocks(text)
    elif "/man/" in path:
        kind, raw = "man", man_blocks(text)
    elif kind == ".dict":
        raw = dictionary_blocks(text)
    elif kind.startswith(".info"):
        kind, raw = ".info", plain_blocks(text)
    elif kind in PLAIN_SUFFIXES:
        raw = plain_blocks(text)
    else:
        return None
    blocks = [block for block in map(prose, raw) if block]
    return (kind, title or name_title(path), blocks) if blocks else None


def read_package(deb: pathlib.Path) -> list[Document]:
    """Reads the documents of a package without unpacking it to disk.

    Args:
        deb: The package file.

    Returns:
        Its documents, in the order of the package: those of one kind, the kind that holds most text, for many
        packages hold the same text as web pages, as manual pages and as plain text.
    """
    documents: list[Document] = []
    command = ["dpkg-deb", "--fsys-tarfile", str(deb)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: SIM117
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                path = member.name.removeprefix("./")
                if not member.isfile() or not path.startswith(TEXT_ROOTS) or SKIPPED_PATH.search(path):
                    continue
                stored = archive.extractfile(member)
                if stored is None or member.size > MAX_FILE_BYTES:
                    continue
                document = read_document(path, stored.read())
                if document:
                    documents.append(document)
    sizes: collections.Counter[str] = collections.Counter()
    for kind, _, blocks in documents:
        sizes[kind] += sum(map(len, blocks))
    return [document for document in documents if document[0] == max(sizes, key=lambda kind: sizes[kind])]


def fetch_packages(names: Sequence[str], cache: pathlib.Path) -> list[pathlib.Path]:
    """Fetches packages that the cache directory does not hold yet.

    Args:
        names: The packages' names.
        cache: The directory to keep them in.

    Returns:
        The package files, in the order of the names; a package that cannot be had is left out.
    """

    def missing() -> list[str]:
        return [name for name in names if not any(cache.glob(f"{name}_*.deb"))]

    def known() -> set[str]:
        listed = subprocess.run(["apt-cache", "pkgnames"], stdout=subprocess.PIPE, text=True, check=True)
        return set(listed.stdout.split())

    def download(wanted: list[str]) -> bool:
        # apt-get reads all its lists each time it is started, so it is given many names at once.
        command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download"]
        starts = range(0, len(wanted), 50)
        runs = [subprocess.run(command + wanted[at : at + 50], cwd=cache, stdout=sys.stderr) for at in starts]
        return not any(run.returncode for run in runs)

    cache.mkdir(parents=True, exist_ok=True)
    wanted = missing()
    if wanted and not (known().issuperset(wanted) and download(wanted)):
        subprocess.run(["apt-get", "-q", "update"], stdout=sys.stderr)
        listed = known()
        download([name for name in missing() if name in listed])
    for name in missing():
        log.warning("no package %s", name)
    return [sorted(cache.glob(f"{name}_*.deb"))[-1] for name in names if any(cache.glob(f"{name}_*.deb"))]


def cut_passages(packages: Iterable[tuple[str, list[Document]]], seed: int) -> Iterator[tuple[str, str]]:
    """Drops what was seen before and cuts the rest into passages.

    Args:
        packages: Each package's name and documents.
        seed: Decides which passages of a package that holds very many are taken.

    Yields:
        The text and the title of each passage; what is left at a document's end is too short for one.
    """
    seen_blocks: set[bytes] = set()
    seen_passages: set[bytes] = set()
    chance = random.Random(seed)

    def is_new(text: str, seen: set[bytes]) -> bool:
        # Digits are left out, so that pages made for each of many versions count as one.
        letters = re.sub(r"[\W\d_]+", " ", text.lower()).encode()
        key = hashlib.blake2b(letters, digest_size=8).digest()
        known = key in seen
        seen.add(key)
        return not known

    for name, documents in packages:
        passages: list[tuple[str, str]] = []
        for _, title, blocks in documents:
            words: list[str] = []
            for block in blocks:
                if is_new(block, seen_blocks):
                    words.extend(block.split())
            for start in range(0, len(words) - WORDS_PER_PASSAGE + 1, WORDS_PER_PASSAGE):
                text = " ".join(words[start : start + WORDS_PER_PASSAGE])
                if is_new(text, seen_passages):
                    passages.append((text, title[:120]))
        log.info("%-36s %7d passages", name, len(passages))
        yield from thin(passages, MAX_PASSAGES_PER_PACKAGE, chance)


def thin(passages: list[tuple[str, str]], most: int, chance: random.Random) -> list[tuple[str, str]]:
    """Leaves out passages by chance where there are too many.

    Args:
        passages: The passages.
        most: How many to keep at most.
        chance: The source of chance.

    Returns:
        The passages that are kept, in their order.
    """
    if len(passages) <= most:
        return passages
    return [passages[number] for number in sorted(chance.sample(range(len(passages)), most))]


def write_lines(path: pathlib.Path, rows: Iterable[Sequence[object]] | Iterable[str]) -> None:
    """Writes a file so that it is either complete or not there.

    Args:
        path: The file to write.
        rows: Lines of text, or rows to write as tab-separated values.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".tmp")
    with partial.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, delimiter="\t", lineterminator="\n")
        for row in rows:
            if isinstance(row, str):
                file.write(row + "\n")
            else:
                table.writerow(row)
    partial.replace(path)


def make_passages(output: pathlib.Path, wanted: int, cache: pathlib.Path, jobs: int, seed: int) -> int:
    """Makes the passages file.

    Args:
        output: The file to write.
        wanted: How many passages it should hold.
        cache: Where packages are kept.
        jobs: How many packages to read at the same time.
        seed: Decides which passages are left out when there are more than wanted.

    Returns:
        How many passages were written, which is less than wanted if the packages do not hold that many.
    """
    debs = fetch_packages(PACKAGES, cache)
    size = sum(deb.stat().st_size for deb in debs)
    log.info("%d of %d packages, %.0f MB", len(debs), len(PACKAGES), size / 1e6)
    names = [deb.name.split("_")[0] for deb in debs]
    with multiprocessing.Pool(jobs) as pool:
        passages = list(cut_passages(zip(names, pool.imap(read_package, debs), strict=True), seed))
    log.info("%d passages found", len(passages))
    passages = thin(passages, wanted, random.Random(seed))
    header: list[tuple[object, ...]] = [("id", "text", "title")]
    write_lines(output, header + [(n, text, title) for n, (text, title) in enumerate(passages, start=1)])
    return len(passages)


def make_questions(passages: pathlib.Path, wanted: int, seed: int) -> list[str]:
    """Makes questions to measure speed with.

    Args:
        passages: The passages file.
        wanted: How many questions to make.
        seed: Decides which words are taken; the same seed and passages give the same questions.

    Returns:
        The questions, all different.
    """
    with passages.open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file, delimiter="\t")]
    chance = random.Random(seed)
    asked = sorted({" ".join(q.split()) for text in texts for q in _QUESTION.findall(text)})
    asked = [question for question in asked if 4 <= len(question.split()) <= 20]
    questions = dict.fromkeys(chance.sample(asked, min(len(asked), wanted // 4)))
    for _ in range(100 * wanted):
        if len(questions) >= wanted:
            break
        words = _CLEAN_WORD.findall(chance.choice(texts))
        length = chance.randint(4, 9)
        start = chance.randint(0, max(0, len(words) - length))
        span = words[start : start + length]
        if len(span) == length and any(word.lower() not in STOP_WORDS for word in span):
            questions[" ".join(span).lower()] = None
    made = list(questions)
    chance.shuffle(made)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script.

    Args:
        argv: The arguments, those of the process by default.

    Returns:
        The exit status: 0, or 1 if there were too few passages.
    """
    parser = argparse.ArgumentParser(description="Make passages and questions for the BM25 benchmark.")
    add = parser.add_argument
    add("-o", "--output", type=pathlib.Path, required=True, help="passages file (TSV)")
    add("--passages", type=int, default=220_000, help="how many passages (default: %(default)s)")
    add("--cache", type=pathlib.Path, help="where packages are kept (default: debs beside OUTPUT)")
    add("--jobs", type=int, default=1, help="packages to read at once (default: %(default)s)")
    add("--force", action="store_true", help="make the passages file anew if it is there")
    add("--questions", type=pathlib.Path, help="questions file, one question on a line")
    add("-n", type=int, default=2000, help="how many questions (default: %(default)s)")
    add("--seed", type=int, default=1, help="for what is left to chance (default: %(default)s)")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)

    output = args.output.expanduser()
    status = 0
    if args.force or not output.exists():
        cache = (args.cache or output.parent / "debs").expanduser().resolve()
        made = make_passages(output, args.passages, cache, args.jobs, args.seed)
        sys.stdout.write(f"{output}: {made} passages\n")
        if made < args.passages:
            log.error("%d passages were asked for", args.passages)
            status = 1
    if args.questions:
        questions = make_questions(output, args.n, args.seed)
        write_lines(args.questions.expanduser(), questions)
        sys.stdout.write(f"{args.questions}: {len(questions)} questions\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
