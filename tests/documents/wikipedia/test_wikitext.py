"""A piece of wikitext for each construct, with the text expected."""

import time

import pytest

from mundap.documents.files import Unreadable
from mundap.documents.wikipedia.site import Site
from mundap.documents.wikipedia.wikitext import clean

ENGLISH = Site("enwiki", "en", "https://en.wikipedia.org/wiki", {"file": 6, "category": 14, "template": 10})


def text_of(wikitext, site=ENGLISH, **options):
    return clean(wikitext, site, "Mount Test", **options).text


CONSTRUCTS = {
    "plain": ("Seoul is a city.", "Seoul is a city."),
    "paragraphs": ("One\nline.\n\nAnother.", "One line.\n\nAnother."),
    "bold and italics": ("'''Seoul''' is ''the'' '''''capital'''''.", "Seoul is the capital."),
    "an apostrophe in bold": ("The '''dog's''' bone and l''''amour'''.", "The dog's bone and l'amour."),
    "link": ("In [[South Korea]].", "In South Korea."),
    "link with words": ("The [[Han River (Korea)|river]].", "The river."),
    "link with a tail": ("Many [[city|citi]]es and [[dog]]s.", "Many cities and dogs."),
    "link with italics": ("[[Emma (novel)|''Emma'']] is a novel.", "Emma is a novel."),
    "link to a section": ("See [[Seoul#History|its history]] and [[#Geography]].", "See its history and Geography."),
    "link with an empty label": ("In [[Korea (history)|]] then.", "In Korea (history) then."),
    "link with a colon": ("[[2001: A Space Odyssey]] is a film.", "2001: A Space Odyssey is a film."),
    "link to a category": ("Of the [[:Category:Cities]] kind.", "Of the Category:Cities kind."),
    "link to another project": ("The [[wikt:word|word]] here.", "The word here."),
    "link to another language": ("Text.\n[[de:Seoul]]\n[[zh-min-nan:Seoul]]", "Text."),
    "category": ("Text.\n\n[[Category:Cities in Korea]]\n[[category:Capitals|Seoul]]", "Text."),
    "picture": ("[[File:Seoul.jpg|thumb|right|A view of [[Seoul]] from {{nowrap|the air}}]]Seoul.", "Seoul."),
    "picture with an address": ("[[Image:A.png|thumb|From [http://x.org the site]]]Text.", "Text."),
    "picture with a picture": ("[[File:A.png|thumb|a [[File:B.png|10px]] b [[c|d]] e]]Text.", "Text."),
    "gallery": ("Before.\n<gallery mode=packed>\nFile:A.jpg|One\nFile:B.jpg|Two\n</gallery>\nAfter.", "Before.\n\nAfter."),
    "external link": ("See [http://example.org/a?b=c the site] now.", "See the site now."),
    "external link without words": ("See it.[http://example.org] Now.", "See it. Now."),
    "external link around a link": ("[https://example.org The [[BBC]] says] so.", "The BBC says so."),
    "brackets that are no link": ("He said [sic] so.", "He said [sic] so."),
    "comment": ("One<!-- two\nthree --> four.", "One four."),
    "comment that never ends": ("One.<!-- two\n\nthree", "One."),
    "reference": ('One.<ref name="a">{{cite web|url=http://x}}</ref> Two.<ref name=a /> Three.<REF>x</REF>', "One. Two. Three."),
    "reference that never ends": ("One.<ref>{{cite}} 12\n\nTwo.", "One.\n\nTwo."),
    "reference tag that is broken": ('One.<ref name="x" Two.\n\nThree.', "One.\n\nThree."),
    "references": ("Text.\n<references>\n<ref name=a>x</ref>\n</references>\n{{Reflist}}", "Text."),
    "template": ("{{Infobox city\n| name = Seoul\n| image = {{flagicon|KR}}\n}}\nSeoul is a city.{{citation needed|date=May}}", "Seoul is a city."),
    "templates within templates": ("{{a|{{b|{{c}}}}|d={{e}}}}Text.", "Text."),
    "template parameter": ("A {{{1|default}}} text{{{x}}}.", "A text."),
    "parser function": ("A {{#if:{{{x|}}}|yes|no}}text{{DEFAULTSORT:Text, A}}.", "A text."),
    "table": ('Before.\n{| class="wikitable" style="width:50%"\n|+ Caption\n! A !! B\n|-\n| 1 || 2\n|}\nAfter.', "Before.\n\nAfter."),
    "table in a table": ("Before.\n\n{|\n| a\n|\n{|\n| b\n|}\n| c\n|}\n\nAfter.", "Before.\n\nAfter."),
    "table that never ends": ("Before.\n\n{|\n| a\n\nlost\n\n== Next ==\nAfter.", "Before.\n\nAfter."),
    "table ended by a template": ("Before.\n\n{|\n| a\n{{end}}\n\nAfter.", "Before.\n\nAfter."),
    "rows without a table": ('Before.\n|-\n| style="width:10%" | cell\n! head !! head\n|}\n\nAfter.', "Before.\n\nAfter."),
    "HTML table": ('Before.<table class="x"><tr><td>a<table><tr><td>b</table></table>After.', "Before.After."),
    "lists": ("Before.\n* one\n** two\n# three\n; term\n: meaning\n:: indented\n\nAfter.", "Before.\n\nAfter."),
    "HTML list": ("Before.<ul><li>one</li><li>two</li></ul>After.", "Before.After."),
    "headings": ("Lead.\n\n== History ==\nText.\n\n=== Early ===\n* a\n\n== See also ==\n* b", "Lead.\n\nText."),
    "HTML": ("A <b>bold</b>, <span style='color:red'>red</span><br/>and <small>small</small> H<sub>2</sub>O.", "A bold, red and small H2O."),
    "unknown tags": ("Write <stdio.h> or a < b > c.", "Write <stdio.h> or a < b > c."),
    "block quotation": ("He said:\n<blockquote>It is so.</blockquote>\nYes.", "He said:\n\nIt is so.\n\nYes."),
    "poem": ("<poem>\nOne\nTwo\n</poem>", "One Two"),
    "hidden": ('Shown<span style="display:none">hidden <span>too</span></span> text<div style="DISPLAY: none;">no</div>.', "Shown text."),
    "nowiki": ("Write <nowiki>[[link]] ''and'' {{x|y}}</nowiki> so.", "Write [[link]] ''and'' {{x|y}} so."),
    "math": ("Let <math>x = \\frac{{a}}{b} | c</math> be.", "Let be."),
    "a sentence of math": ("where <math>a</math>, <math>b</math> and ({{math|''c''}}) are", "where, and are"),
    "chemistry": ("Water, <chem>H2O</chem>, or {{chem|H|2|O}}, is wet.", "Water, or H2O, is wet."),
    "code": ('Use <code>a[[0]] | b</code>.\n<syntaxhighlight lang="c">int a[] = {{1}};</syntaxhighlight>\n<pre>{{x</pre>\nDone.', "Use.\n\nDone."),
    "score and timeline": ("A.<score>{ c d }</score><timeline>x</timeline> B.", "A. B."),
    "switches": ("__NOTOC__\nText.\n__목차없음__ __FORCETOC__", "Text."),
    "entities": ("5&nbsp;km &ndash; a&amp;b &lt;tag&gt; &#8364;&#x20AC;", "5 km – a&b <tag> €€"),
    "rule": ("One.\n----\nTwo.", "One.\n\nTwo."),
    "what pronunciation leaves": ("Seoul ({{IPA-ko|sʌul}}; {{lang|ko|서울}}) and Busan ({{IPA|x}}) [{{IPA|x}}] are.", "Seoul (서울) and Busan are."),
    "what units leave": ("Its area is {{unknown|5}} , or so ( {{unknown}} ).", "Its area is, or so."),
    "no-width signs": ("a\u200bb\u00adc\ufeff \u200ed", "abc d"),
    "noinclude": ("A<noinclude> b</noinclude><includeonly>c</includeonly>.", "A b."),
    "ruby": ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "漢"),
    "page name": ("{{PAGENAME}} is high.", "Mount Test is high."),
    "unclosed template": ("Before.\n\nText {{convert|5|km and more\n\nAfter.", "Before.\n\nText\n\nAfter."),
    "unclosed infobox": ("{{Infobox\n| a = {{b} \n| c = d\n\nText.", "Text."),
    "stray closers": ("Text }} and ]] here.", "Text and here."),
    "unclosed link": ("A [[b|c and more.\n\nAfter.", "A c and more.\n\nAfter."),
    "unclosed picture": ("A [[File:b.jpg|thumb|c and more.\n\nAfter.", "A\n\nAfter."),
    "excess braces": ("{{{{a}}}} {{{b}}} x.", "x."),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_construct(name):
    wikitext, expected = CONSTRUCTS[name]
    assert text_of(wikitext) == expected


TEMPLATES = {
    "{{nowrap|a b}}": "a b",
    "{{lang|fr|Liberté}}": "Liberté",
    "{{lang-ko|[[서울]]}}": "서울",
    "{{langx|de|Wort}}": "Wort",
    "{{transliteration|ko|ISO|Seoul}}": "Seoul",
    "{{Template:Nowrap|1=a = b}}": "a = b",
    "{{Template:Nowrap|words}}": "words",
    "{{abbr|km|kilometre}}": "km",
    "{{quote|To be or not.|author=Hamlet}}": "To be or not.",
    "{{Blockquote |text=It [[is|was]] so. |sign=X}}": "It was so.",
    "{{convert|5|km|mi|abbr=on}}": "5 km",
    "{{convert|5|to|10|km}}": "5 to 10 km",
    "{{convert|5|-|10|km|mi}}": "5–10 km",
    "{{convert|6|ft|2|in|cm}}": "6 ft 2 in",
    "{{convert|3|x|4|m}}": "3 by 4 m",
    "{{cvt|1,000|sqmi}}": "1,000 sqmi",
    "{{val|1.5|e=6|u=kg}}": "1.5 × 10^6 kg",
    "{{frac|1|2}}": "1/2",
    "{{frac|3|1|2}}": "3 1/2",
    "{{birth date|1990|2|3}}": "February 3, 1990",
    "{{start date|1990|02|03|df=yes}}": "3 February 1990",
    "{{start date|1990}}": "1990",
    "{{as of|2010|5}}": "As of May 2010",
    "{{circa|1066}}": "c. 1066",
    "1990{{ndash}}95": "1990–95",
    "a{{spaced ndash}}b": "a – b",
    "dog{{'}}s": "dog's",
    "{{USS|Enterprise|CVN-65}}": "USS Enterprise (CVN-65)",
    "{{HMS|Hood|51|6}}": "HMS Hood",
    "{{US$|5 million}}": "US$5 million",
    "{{formatnum:12345}}": "12345",
    "{{nihongo|Tokyo|東京|Tōkyō}}": "Tokyo (東京, Tōkyō)",
    "{{color|red|warm}}": "warm",
    "{{nowrap|{{convert|5|km}} [[mile|away]]}}": "5 km away",
    "{{ill|Hans Meier|de}}": "Hans Meier",
    "{{sort|01|first}}": "first",
    "{{no such template|words}}": "",
    "{{as of}}": "As of",
    "{{convert}}": "",
    "{{birth date|1990|13|x}}": "x, 1990",
}


@pytest.mark.parametrize("wikitext", TEMPLATES)
def test_templates_with_words(wikitext):
    assert text_of(f"So {wikitext} it is.") == " ".join(f"So {TEMPLATES[wikitext]} it is.".split())


def test_headings_only_of_sections_with_text():
    page = "Lead.\n== A ==\n=== ''B'' ===\nText.\n== C ==\n* list\n== D ==\n{{x}}\n== E == <!-- c -->\nMore."
    assert text_of(page, headings=True) == "Lead.\n\nA\n\nB\n\nText.\n\nE\n\nMore."


def test_italics_as_quotation_marks():
    assert text_of("'''The''' ''Times'' and '''''both'''''.", quotes=True) == 'The "Times" and "both".'


def test_kinds_of_pages_are_told_by_templates_and_categories():
    page = clean("{{Hndis|Smith}}\n[[Category:Human names|X]]\n[[Category:Living_people]]", ENGLISH)
    assert page.templates == {"hndis"}
    assert page.categories == {"human names", "living people"}


HOSTILE = {
    "templates": "{{a|" * 10_000,
    "templates with words": "{{nowrap|" * 99 + "x",
    "closed templates": "{{nowrap|" * 10_000 + "x" + "}}" * 10_000,
    "braces": "{" * 100_000 + "}" * 100_000,
    "closing braces": "}" * 100_000,
    "links": "[[" * 100_000,
    "links with words": "[[a|" * 50_000 + "]]" * 50_000,
    "pictures": "[[File:a|" * 30_000,
    "closed pictures": "[[File:a|" * 30_000 + "]]" * 30_000,
    "tables": "\n{|" * 50_000,
    "tables with headings": "\n{|\n==x==" * 20_000,
    "comments": "<!-- " * 50_000,
    "references": "<ref>" * 50_000,
    "references of many kinds": "<ref><math><code><pre>" * 10_000,
    "nowiki": "<nowiki>" * 50_000,
    "tags": "<div>" * 50_000,
    "tags that hide": '<div style="display:none">' * 20_000,
    "half tags": "<div " * 50_000,
    "half references": "<ref " * 50_000,
    "addresses": "[http://" * 50_000,
    "a long address": "[http://" + "a" * 500_000,
    "apostrophes": "'" * 300_000,
    "parentheses": "(" * 100_000 + ", " * 100_000 + ")" * 100_000,
    "blanks": "a" + " " * 300_000 + "b",
    "commas": "a" + " ," * 150_000 + "b",
    "equals signs": "=" * 300_000,
    "headings": "=a=\n" * 50_000,
    "nested headings": "\n".join("=" * (n % 7) + "a" + "=" * (n % 7) for n in range(30_000)),
    "underscores": "__A" * 100_000,
    "entities": "&amp" * 100_000,
    "brackets": "[" * 300_000,
    "pipes": "{{nowrap" + "|a=" * 100_000 + "}}",
    "blanks in a template": "{{nowrap|a" + " " * 300_000 + "b}}",
    "a long argument": "{{nowrap|" + "a " * 150_000 + "=b}}",
    "variants": "-{" * 100_000,
    "one line": "word [[link]] '''bold''' {{nowrap|x}} <b>y</b> " * 50_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_take_no_longer_than_others(name):
    started = time.process_time()
    try:
        clean(HOSTILE[name], Site("zhwiki", "zh"))
    except Unreadable as error:
        assert "broken page" in str(error)
    assert time.process_time() - started < 20  # at most 2.4 MB: a quadratic pass would take minutes


def test_too_many_open_templates_are_a_reason_to_skip_a_page():
    with pytest.raises(Unreadable, match="10,000 templates"):
        text_of("Text.\n" + "{{a|" * 10_000)
    assert text_of("Text.\n\n" + "{{a|\n" * 50) == "Text."


@pytest.mark.parametrize("mark", ["{{a}}", "[[:a]]", "<b>"])
def test_a_page_of_marks_alone_is_skipped(mark):
    with pytest.raises(Unreadable, match="more than 500,000"):
        text_of(mark * 600_000)
