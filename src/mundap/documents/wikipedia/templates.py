"""Templates that carry words, and the words they carry. All others are dropped. docs/wikipedia.md lists them.

A rule is a pattern to fill in: `{1}` is the first unnamed argument, `{text}` the one of that name, `{text|1}` the first
of the two that is there, `{*}` all unnamed ones. A few templates need a function instead.
"""

import re
from collections.abc import Callable, Iterable, Mapping

Arguments = Mapping[str, str]
"""What a template is given, by name or by number; its own name is number 0."""

Rule = str | Callable[[Arguments, str], str]
"""A pattern, or a function of the arguments and the language."""

_HOLE = re.compile(r"\{([^{}]+)\}")
_LANGUAGE_OF_WORDS = re.compile(r"lang-[a-z]{2,3}(?:-[a-z]+)*")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_BETWEEN = {
    **dict.fromkeys(("-", "–", "&ndash;"), "–"),
    **dict.fromkeys(("to", "to(-)"), " to "),
    **dict.fromkeys(("and", "and(-)", "&"), " and "),
    **dict.fromkeys(("x", "×", "by", "xx", "*"), " by "),
    **dict.fromkeys(("+/-", "±"), " ± "),
    "or": " or ",
}
"""What stands between two quantities of `convert`."""

_FIRST_OF_TWO = ("ft", "foot", "feet", "lb", "st", "mi", "yd")
"""Units that may be followed by a smaller one: `6 ft 2 in`."""


def rule_for(name: str, language: str) -> Rule | None:
    """The rule for a template, by its name in lower case; None if it is to be dropped."""
    rule = _BY_LANGUAGE.get(language, {}).get(name) or _EVERYWHERE.get(name)
    if rule is None and name.startswith("lang-") and _LANGUAGE_OF_WORDS.fullmatch(name):
        return "{1}"
    return rule


def fill(rule: Rule, given: Arguments, language: str) -> str:
    """What is left of a template."""
    if not isinstance(rule, str):
        return rule(given, language)

    def value(hole: re.Match[str]) -> str:
        if hole.group(1) == "*":
            return " ".join(_unnamed(given))
        return next((given[name] for name in hole.group(1).split("|") if given.get(name)), "")

    return _HOLE.sub(value, rule)


def _unnamed(given: Arguments) -> list[str]:
    found: list[str] = []
    while (value := given.get(str(len(found) + 1))) is not None:
        found.append(value)
    return found


def _date(given: Arguments, language: str) -> str:
    return _written(given, language, given.get("df", "").lower() in ("y", "yes", "1", "true"))


def _as_of(given: Arguments, language: str) -> str:
    word = "as of" if given.get("lc") else "As of"
    return given.get("alt") or f"{word} {_written(given, language, day_first=True)}"


def _written(given: Arguments, language: str, day_first: bool) -> str:
    """Year, month and day as the language writes them, some of which may be missing."""
    year, month, day = (given.get(number, "").strip().lstrip("0") for number in "123")
    if language == "ko":
        return " ".join(_signed((year, month, day), "년월일"))
    if language in ("ja", "zh"):
        return "".join(_signed((year, month, day), "年月日"))
    if language not in ("en", "simple"):
        return "-".join(number.rjust(2, "0") for number in (year, month, day) if number)
    return _in_english(year, month, day, day_first)


def _signed(numbers: Iterable[str], signs: str) -> list[str]:
    """Numbers with the sign of each; those that are missing are left out."""
    return [f"{number}{sign}" for number, sign in zip(numbers, signs, strict=True) if number]


def _in_english(year: str, month: str, day: str, day_first: bool) -> str:
    if month.isdecimal():
        month = _MONTHS[int(month) - 1] if int(month) <= 12 else ""
    if day_first:
        return " ".join(filter(None, (day, month, year)))
    return ", ".join(filter(None, (f"{month} {day}".strip(), year)))


def _convert(given: Arguments, language: str) -> str:
    """The quantity as it was given, without what it is converted to."""
    words = [word.strip() for word in _unnamed(given)]
    out = words[0] if words else ""
    for position in range(1, len(words) - 1, 2):
        word, quantity = words[position : position + 2]
        if word.lower() in _BETWEEN:
            out += _BETWEEN[word.lower()] + quantity
        elif word in _FIRST_OF_TWO and quantity[:1].isdecimal():
            out += f" {word} {quantity}"
        else:
            return f"{out} {word}"
    return f"{out} {words[-1]}" if words and len(words) % 2 == 0 else out


def _value(given: Arguments, language: str) -> str:
    power = f" × 10^{given['e']}" if given.get("e") else ""
    return f"{given.get('1', '')}{power} {given.get('u') or given.get('ul') or ''}".strip()


def _fraction(given: Arguments, language: str) -> str:
    parts = _unnamed(given)
    if len(parts) == 1:
        return f"1/{parts[0]}"
    return f"{parts[0]} {parts[1]}/{parts[2]}" if len(parts) > 2 else "/".join(parts)


def _ship(given: Arguments, language: str) -> str:
    """`{{USS|Enterprise|CVN-65}}`; with a third argument of 2 or 6 the number is not shown."""
    shown = f"{given['0'].strip()} {given.get('1', '')}"
    return f"{shown} ({given['2']})" if given.get("2") and given.get("3", "") not in ("2", "6") else shown


def _nihongo(given: Arguments, language: str) -> str:
    inside = ", ".join(filter(None, (given.get("2"), given.get("3"))))
    return " ".join(filter(None, (given.get("1"), inside and f"({inside})")))


def _last(given: Arguments, language: str) -> str:
    return (_unnamed(given) or [""])[-1]


def _together(given: Arguments, language: str) -> str:
    return "".join(_unnamed(given))


def _table(*rows: tuple[Rule, str]) -> dict[str, Rule]:
    """From names, separated by commas, to their rule."""
    return {name.strip(): rule for rule, names in rows for name in names.split(",")}


_QUOTED = "\n{text|quote|content|1}\n"

_EVERYWHERE = _table(
    # words that are only set differently
    (
        "{1}",
        "nowrap, nobr, nobreak, nowiki, nobold, noitalic, small, smaller, big, larger, resize, em, strong, italics",
    ),
    ("{1}", "smallcaps, small caps, sc, allcaps, mono, kbd, samp, unicode, underline, overline, center, midsize, bold"),
    (
        "{1}",
        "abbr, tooltip, visible anchor, vanchor, not a typo, as written, sic, linktext, highlight, mark, serif, fsp",
    ),
    ("{1}", "citation needed span, dubious span, clarify span, hebrew, script/hebrew, script/arabic, polytonic, iast"),
    ("{1}", "flag, flagcountry, flagu, sup, sub, angbr, nts, number table sorting, proper name, red link"),
    ("{2}", "lang, langx, llang, rtl-lang, script, wikt-lang, color, colour, font color, fontcolor, sort, native name"),
    ("{lt|1}", "ill, interlanguage link"),
    (_last, "transliteration, transl, translit"),
    (_nihongo, "nihongo"),
    (_together, "chem, gaps"),
    ("{1}", "chem2"),
    # quotations
    (
        _QUOTED,
        "quote, blockquote, cquote, quotation, rquote, block quote, bquote, poemquote, poem quote, centered quote",
    ),
    ("“{1}”", '", qq'),
    # quantities
    (_convert, "convert, cvt"),
    (_value, "val"),
    (_fraction, "frac, fraction, sfrac"),
    ("{1}", "formatnum:, formatnum, number"),
    ("{1} {2}", "unité, unidad, unit, nombre"),
    ("US${1}", "us$, usd"),
    ("£{1}", "£, gbp"),
    ("€{1}", "€, eur, euro"),
    ("₩{1}", "₩, krw"),
    ("¥{1}", "¥, jpy"),
    ("₹{1}", "₹, inr"),
    ("×10^{1}", "e"),
    ("10^{1}", "10^"),
    # dates
    (_date, "birth date, death date, start date, end date, birth date and age, death date and age, start date and age"),
    (_date, "film date, dts, bda, release date, launch date, dob"),
    (_as_of, "as of"),
    ("c. {1}", "circa, c., ca., ca"),
    ("fl. {1}", "floruit, fl., fl"),
    ("r. {1}–{2}", "reign, r."),
    ("{1} BCE", "bce"),
    ("{1} BC", "bc"),
    ("{1} CE", "ce"),
    ("AD {1}", "ad"),
    ("{1} {2}", "oldstyledate, old style date"),
    # names
    (_ship, "uss, hms, ss, hmas, hmcs, sms, usns, rms, ms, mv, ins"),
    ("{1} {2}", "bibleverse, bibleref, bibleref2"),
    # signs
    (" – ", "spaced ndash, snd, spnd, sndash, spaced en dash"),
    ("–", "ndash, en dash, –, nbndash"),
    ("—", "mdash, em dash, —, emdash"),
    (" ", "nbsp, space, sp, spaces, thinsp, thin space, thinspace, hair space, hsp, break, br, crlf"),
    ("'", "', `"),
    ("'\"", "' \""),
    ("'s", "'s"),
    ("ʻ", "okina"),
    ("ʾ", "hamza"),
    ("ʿ", "ayin"),
    ("=", "="),
    (" · ", "·, middot, dot"),
    (" • ", "•, bullet"),
    ("°", "degree"),
    ("♯", "sharp"),
    ("♭", "flat"),
    # MediaWiki's own
    ("{1}", "lc:, uc:, ucfirst:, lcfirst:"),
    ("\n|}\n", "end, s-end, table end"),  # ends of tables that begin in the text
)

_BY_LANGUAGE: dict[str, dict[str, Rule]] = {
    "de": _table((_QUOTED, "zitat")),
    "es": _table((_QUOTED, "cita"), ("{1}", "versalita"), ("siglo {1}", "siglo"), ("{1} {2} {3}", "fecha")),
    "fr": _table(
        ("« {1} »", "citation, citation bloc"),
        ("{*}", "date, date-, heure"),
        ("{2}", "langue"),
        ("{1}", "petit, pc, petites capitales, lien, corr"),
        ("{1}e siècle", "s, s-, siècle"),
        ("no {1}", "n°, numéro"),
        ("e", "e"),
        ("er", "er"),
        ("re", "re"),
        ("1er", "1er"),
        ("Ier", "ier"),
        ("Ire", "ire"),
    ),
    "ja": _table(
        ("{1}（{2}）", "読み仮名, 読み仮名 ruby不使用"),
        ("{1}", "仮リンク, ruby, ルビ, 補助漢字フォント, jis2004フォント, 拡張漢字"),
        (_QUOTED, "引用文, 引用"),
    ),
    "ko": _table(
        ("{1}", "임시링크, 한자, 색, 작게, 크게, 굵게, 기울임, 윗주, 루비, ruby"),
        (_QUOTED, "인용문, 인용, 인용구, 인용문2"),
        (_date, "출생일, 출생일과 나이, 사망일, 사망일과 나이, 시작일, 날짜"),
        (_nihongo, "일본어"),
    ),
    "ru": _table(
        (_QUOTED, "цитата"),
        ("{1}", "s, comment, подсказка, num, число, не переведено, нп, нп3, iw"),
        ("{2|1}", "не переведено 5, нп5"),
    ),
    "zh": _table(
        ("{1}", "le, link-en, link-ja, link-de, link-fr, internal link helper, 僻字, ruby"),
        ("{3|2}", "tsl, translink"),
        (_QUOTED, "引文, 引用"),
        (_date, "生日, 出生日期"),
    ),
}
