"""Templates that carry words, and the words they carry. All others are dropped.

A rule is a pattern to fill in: `{1}` is the first unnamed argument, `{text}` the one of that name, `{text|1}` the first
of the two that is there, `{*}` all unnamed ones. A few templates need a function instead. docs/wikipedia.md lists them.
"""

import re
from collections.abc import Callable, Iterable, Mapping

Arguments = Mapping[str, str]
"""What is given to a template, by name or by number."""

Rule = str | Callable[[Arguments, str], str]
"""A pattern, or a function of the arguments and the language."""

_MONTHS = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
_JOINING = {"-": "–", "–": "–", "to": " to ", "to(-)": " to ", "and": " and ", "and(-)": " and ", "or": " or "}
_JOINING |= {"x": " by ", "×": " by ", "by": " by ", "xx": " by ", "+/-": " ± ", "±": " ± ", ",": ", "}
_HOLE = re.compile(r"\{([^{}]+)\}")


def unnamed(given: Arguments) -> list[str]:
    """The arguments without a name, in order."""
    found: list[str] = []
    while (value := given.get(str(len(found) + 1))) is not None:
        found.append(value)
    return found


def fill(rule: Rule, given: Arguments, language: str) -> str:
    """What is left of a template."""
    if not isinstance(rule, str):
        return rule(given, language)

    def value(hole: re.Match[str]) -> str:
        if hole.group(1) == "*":
            return " ".join(unnamed(given))
        return next((given[name] for name in hole.group(1).split("|") if given.get(name)), "")

    return _HOLE.sub(value, rule)


def date(year: str, month: str, day: str, language: str, day_first: bool = False) -> str:
    """A date as the language writes it; parts may be missing."""
    numbers = [part.strip().lstrip("0") for part in (year, month, day)]
    if language in ("ko", "ja", "zh"):
        signs = "년월일" if language == "ko" else "年月日"
        parts = [f"{number}{sign}" for number, sign in zip(numbers, signs, strict=True) if number]
        return (" " if language == "ko" else "").join(parts)
    if language not in ("en", "simple"):
        return "-".join(number.rjust(2, "0") for number in numbers if number)
    name = numbers[1]
    if name.isdigit():
        name = _MONTHS[int(name) - 1] if 1 <= int(name) <= 12 else ""
    if day_first:
        return " ".join(filter(None, (numbers[2], name, numbers[0])))
    return ", ".join(filter(None, (f"{name} {numbers[2]}".strip(), numbers[0])))


def _date(given: Arguments, language: str) -> str:
    parts = [*unnamed(given), "", "", ""]
    return date(*parts[:3], language, given.get("df", "").lower() in ("y", "yes", "1", "true"))


def _as_of(given: Arguments, language: str) -> str:
    if given.get("alt"):
        return given["alt"]
    parts = [*unnamed(given), "", "", ""]
    word = "as of" if given.get("lc") else "As of"
    return f"{word} {date(*parts[:3], language, day_first=True)}"


def _convert(given: Arguments, language: str) -> str:
    """The quantity as it was given, without the conversion: `5 km`, `5 to 10 km`, `5 ft 11 in`."""
    words = unnamed(given)
    out = ""
    for position, word in enumerate(words):
        if position % 2 == 0:
            out += word.strip()
        elif (joined := _JOINING.get(word.strip().lower())) is not None and position + 1 < len(words):
            out += joined
        else:
            out += f" {word.strip()}"
            following = words[position + 1] if position + 2 < len(words) else ""
            if not (following[:1].isdigit() and word.strip() in ("ft", "lb", "st", "mi", "yd", "foot", "stlb")):
                return out
            out += " "
    return out


def _value(given: Arguments, language: str) -> str:
    unit = given.get("u") or given.get("ul") or given.get("up") or ""
    power = given.get("e")
    return f"{given.get('1', '')}{f' × 10^{power}' if power else ''} {unit}".strip()


def _fraction(given: Arguments, language: str) -> str:
    parts = unnamed(given)
    if len(parts) == 1:
        return f"1/{parts[0]}"
    return f"{parts[0]} {parts[1]}/{parts[2]}" if len(parts) > 2 else "/".join(parts)


def _ship(given: Arguments, language: str) -> str:
    """`{{USS|Enterprise|CVN-65}}`, whose first word is the name of the template, which comes as argument 0."""
    name, number = given.get("1", ""), given.get("2", "")
    kind = given.get("3", "")
    shown = f"{given['0'].strip()} {name}"
    return f"{shown} ({number})" if number and kind not in ("2", "6") else shown


def _nihongo(given: Arguments, language: str) -> str:
    inside = ", ".join(filter(None, (given.get("2", ""), given.get("3", ""))))
    return " ".join(filter(None, (given.get("1", ""), f"({inside})" if inside else "")))


def _last(given: Arguments, language: str) -> str:
    return (unnamed(given) or [""])[-1]


def _together(given: Arguments, language: str) -> str:
    return "".join(unnamed(given))


def _named(pattern: Rule, names: str) -> Iterable[tuple[str, Rule]]:
    return ((name.strip(), pattern) for name in names.split(","))


_QUOTED = "\n{text|quote|content|1}\n"

_EVERYWHERE: dict[str, Rule] = dict(
    [
        # Words that are only set differently
        *_named(
            "{1}",
            "nowrap, nobr, nobold, noitalic, nobreak, no wrap, j, small, smaller, big, larger, resize, em, strong",
        ),
        *_named(
            "{1}", "smallcaps, small caps, sc, smallcaps2, allcaps, mono, kbd, samp, var serif, serif, unicode, italic"
        ),
        *_named(
            "{1}", "italics, it, bold, b, i, u, s-inline, underline, ul, center, midsize, larger, normal, main text"
        ),
        *_named(
            "{1}", "abbr, tooltip, abbrlink, visible anchor, vanchor, anchored text, not a typo, typo, sic, as written"
        ),
        *_named(
            "{1}", "citation needed span, dubious span, clarify span, disputed inline span, highlight, text, linktext"
        ),
        *_named(
            "{1}",
            "hebrew, arabic, script/hebrew, script/arabic, polytonic, greek, runic, iast, transl-inline, music note",
        ),
        *_named(
            "{1}",
            "angbr, angle bracket, proper name, pname, fact span, ill, interlanguage link, red link, sup, sub, nts",
        ),
        *_named(
            "{1}",
            "sortname-text, flag, flagcountry, flagu, flag+link, noflag, avoid wrap, shy-text, screen reader-only",
        ),
        *_named(
            "{2}", "color, colour, font color, fontcolor, font, lang, rtl-lang, script, wikt-lang, sort, langx, llang"
        ),
        *_named("{2}", "lang2, size, background color, colored text, langnf, nativename, native name, native phrase"),
        ("ill", "{lt|1}"),
        ("interlanguage link", "{lt|1}"),
        ("transliteration", _last),
        ("transl", _last),
        ("translit", _last),
        ("nihongo", _nihongo),
        ("gaps", _together),
        ("chem", _together),
        ("chem2", "{1}"),
        # Quotations
        *_named(
            _QUOTED, "quote, blockquote, cquote, quotation, rquote, block quote, bquote, long quote, centered quote"
        ),
        *_named(_QUOTED, "quotetext, poem quote, poemquote, verse translation, verse, quote paragraph, excerpt text"),
        *_named("“{1}”", '", inline quote, quote inline, qq'),
        # Quantities
        ("convert", _convert),
        ("cvt", _convert),
        ("val", _value),
        *((name, _fraction) for name in ("frac", "fraction", "sfrac", "fract")),
        *_named(
            "{1}", "formatnum:, number, num, gapnum, nombre-inline, formatprice, price, rounddown, nowrap num, fmtn"
        ),
        *_named("{1} {2}", "unité, unidad, unit, quantity, nombre, unita, unité/2, ед., число"),
        ("us$", "US${1}"),
        ("usd", "US${1}"),
        ("£", "£{1}"),
        ("gbp", "£{1}"),
        ("€", "€{1}"),
        ("eur", "€{1}"),
        ("₩", "₩{1}"),
        ("krw", "₩{1}"),
        ("¥", "¥{1}"),
        ("inr", "₹{1}"),
        ("e", "×10^{1}"),
        ("10^", "10^{1}"),
        ("^", "^{1}"),
        # Dates and times
        *((name, _date) for name in ("birth date", "death date", "start date", "end date", "film date", "dts", "date")),
        *((name, _date) for name in ("birth date and age", "death date and age", "start date and age", "bda", "dob")),
        *((name, _date) for name in ("release date", "launch date", "birth-date", "death-date", "start-date")),
        ("as of", _as_of),
        ("circa", "c. {1}"),
        ("c.", "c. {1}"),
        ("ca", "c. {1}"),
        ("floruit", "fl. {1}"),
        ("fl.", "fl. {1}"),
        ("reign", "r. {1}–{2}"),
        ("r.", "r. {1}–{2}"),
        ("years", "{1}"),
        ("bce", "{1} BCE"),
        ("bc", "{1} BC"),
        ("ad", "AD {1}"),
        ("ce", "{1} CE"),
        *_named("{1} {2}", "oldstyledate, old style date, oldstyledatedy, oldstyledatenny"),
        # Names
        *(
            (name, _ship)
            for name in ("uss", "hms", "ss", "hmas", "hmcs", "sms", "usns", "rms", "ms", "mv", "ins", "gts")
        ),
        *_named("{1} {2}", "bibleverse, bibleref, bibleref2, bible verse, sclass, sclass2, ship"),
        # Signs
        *_named(" – ", "spaced ndash, snd, spnd, sndash, spaced en dash, ndash space, –-"),
        *_named("–", "ndash, en dash, –, nsndns, nbndash"),
        *_named("—", "mdash, em dash, —, emdash, spaced mdash"),
        *_named(
            " ", "nbsp, space, sp, pad, thinsp, thin space, thinspace, hair space, hsp, snds, spaces, break, br, crlf"
        ),
        *_named("'", "', `, prime, okina-apos, apostrophe"),
        *_named("'", "' \", \"'"),
        ("'s", "'s"),
        ("okina", "ʻ"),
        ("hamza", "ʾ"),
        ("ayin", "ʿ"),
        ("=", "="),
        ("·", " · "),
        ("middot", " · "),
        ("dot", " · "),
        ("bullet", " • "),
        ("•", " • "),
        ("'\"", "'\""),
        ("degree", "°"),
        ("sharp", "♯"),
        ("flat", "♭"),
        ("music", ""),
        # Variables and functions of MediaWiki
        *_named("{1}", "lc:, uc:, ucfirst:, lcfirst:, lc, uc, ucfirst, lcfirst, nowiki"),
        ("end", "\n|}\n"),  # these end tables that were begun in the text
        ("s-end", "\n|}\n"),
        ("table end", "\n|}\n"),
    ]
)

_BY_LANGUAGE: dict[str, dict[str, Rule]] = {
    "de": dict([*_named(_QUOTED, "zitat"), *_named("{1}", "zitat-inline, nowrap, lang-de")]),
    "es": dict(
        [
            *_named(_QUOTED, "cita, cita2, bquote"),
            *_named("{1}", "lang-es, nobr, versalita"),
            ("siglo", "siglo {1}"),
            ("fecha", lambda given, language: " ".join(unnamed(given)[:3])),
        ]
    ),
    "fr": dict(
        [
            *_named("« {1} »", "citation, citation bloc, début citation"),
            *_named("{*}", "date, date-, date de naissance, date de décès, heure"),
            *_named("{2}", "langue, lang"),
            *_named("{1}", "nobr, petit, pc, petites capitales, lien, corr"),
            *_named("{1}e siècle", "s, s-, siècle, sap, sp-"),
            *_named("{1}", "n°, numéro, n°-"),
            ("er", "er"),
            ("re", "re"),
            ("e", "e"),
            ("1er", "1er"),
            ("ire", "Ire"),
            ("ier", "Ier"),
        ]
    ),
    "ja": dict(
        [
            *_named("{1}（{2}）", "読み仮名, 読み仮名 ruby不使用, よみがな"),
            *_named("{1}", "仮リンク, ruby, ルビ, 補助漢字フォント, jis2004フォント, cjkv, 拡張漢字, 日本語"),
            *_named(_QUOTED, "quotation, 引用文, 引用"),
        ]
    ),
    "ko": dict(
        [
            *_named("{2}", "llang, lang"),
            *_named("{1}", "임시링크, 한자, 나눔, 색, 작게, 크게, 굵게, 기울임, 윗주, 루비, ruby, 줄바꿈 금지, 따옴표"),
            *_named(_QUOTED, "인용문, 인용, 인용구, 인용문2, 따옴"),
            *(
                (name, _date)
                for name in ("출생일", "출생일과 나이", "사망일", "사망일과 나이", "시작일", "끝날", "날짜")
            ),
            ("일본어", _nihongo),
        ]
    ),
    "ru": dict(
        [
            *_named(_QUOTED, "цитата, врезка-цитата, начало цитаты"),
            *_named("{1}", "nobr, s, comment, подсказка, num, число, lang-ru, не переведено, нп, нп3, нп4, iw"),
            *_named("{2|1}", "не переведено 5, не переведено 3, нп5"),
            ("нбсп", " "),
            ("тире", " — "),
        ]
    ),
    "zh": dict(
        [
            *_named(
                "{1}", "le, link-en, link-ja, link-de, link-fr, internal link helper, 仮リンク, 僻字, 専名号, ruby"
            ),
            *_named("{3|2}", "tsl, translink"),
            *_named(_QUOTED, "引文, 引用, cquote"),
            *((name, _date) for name in ("生日", "出生日期", "birth date")),
            ("bd", "{1}{2}－{3}{4}"),
        ]
    ),
}

_LANGUAGE_OF_TEXT = re.compile(r"lang-[a-z]{2,3}(?:-[a-z]+)*")
_GERMAN_LANGUAGE = re.compile(r"[a-z]{2,3}s")


def rule_for(name: str, language: str) -> Rule | None:
    """The rule for a template, by its name in lower case; None if it is to be dropped."""
    rule = _BY_LANGUAGE.get(language, {}).get(name)
    if rule is None:
        rule = _EVERYWHERE.get(name)
    if rule is None and name.startswith("lang-") and _LANGUAGE_OF_TEXT.fullmatch(name):
        return "{1}"
    return rule
