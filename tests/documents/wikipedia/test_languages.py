"""Pages as they are written in other editions, with their own names for namespaces, templates and categories."""

import bz2
from urllib.parse import quote

import pytest

from mundap.documents import read
from mundap.documents.wikipedia.languages import DISAMBIGUATION_CATEGORIES, DISAMBIGUATION_TEMPLATES, DROPPED_PREFIXES
from mundap.documents.wikipedia.site import Site, normal
from tests.documents.wikipedia.making import file, page, plain

EDITIONS = {
    "ko": (
        {-2: "미디어", -1: "특수", 0: "", 1: "토론", 4: "위키백과", 6: "파일", 10: "틀", 14: "분류"},
        ("서울특별시", """{{다른 뜻|서울 (동음이의)}}
{{대한민국의 광역자치단체 정보
|이름=서울특별시
|그림=[[파일:Seoul.jpg|250px]]
}}
'''서울특별시'''({{llang|ko-Hani|서울特別市}}, {{llang|en|Seoul}})는 [[대한민국]]의 [[수도]]이자 최대 도시이다.<ref>{{웹 인용|url=http://x|제목=서울}}</ref>
[[그림:Han.jpg|섬네일|[[한강]]의 모습]] [[한강 (대한민국)|한강]]을 끼고 있으며, 면적은 {{nowrap|605.2 km<sup>2</sup>}}이다.

== 역사 ==
{{본문|서울의 역사}}
{{날짜|1394|10|28}}에 수도가 되었다.
* 목록

== 같이 보기 ==
* [[부산]]
{{전거 통제}}
[[분류:서울특별시| ]]
[[en:Seoul]]"""),
        "서울특별시(서울特別市, Seoul)는 대한민국의 수도이자 최대 도시이다. 한강을 끼고 있으며, 면적은 605.2 km2이다.\n\n"
        "1394년 10월 28일에 수도가 되었다.",
        ["'''서울'''은 다음을 가리킨다.\n* [[서울특별시]]\n{{동음이의}}", "'''배'''\n* [[배 (과일)]]\n[[분류:동음이의어 문서]]",
         "{{인명 동음이의}}\n'''김철수'''는 다음과 같다."],
        "#넘겨주기 [[서울특별시]]",
    ),
    "de": (
        {-2: "Medium", -1: "Spezial", 0: "", 1: "Diskussion", 4: "Wikipedia", 6: "Datei", 10: "Vorlage", 14: "Kategorie"},
        ("Köln", """{{Infobox Gemeinde in Deutschland|Name=Köln}}
[[Datei:Koeln.jpg|mini|hochkant|Der [[Kölner Dom|Dom]]]]
'''Köln''' (im [[Kölsch (Sprache)|Kölschen]] {{lang|ksh|Kölle}}) ist eine [[Großstadt]].<ref>Quelle</ref>
[[Bild:Alt.jpg|thumb|alt]]
{| class="wikitable"
| a || b
|}
Sie liegt am [[Rhein]].

{{Zitat|Et es wie et es.}}

[[Kategorie:Köln| ]]"""),
        "Köln (im Kölschen Kölle) ist eine Großstadt.\n\nSie liegt am Rhein.\n\nEt es wie et es.",
        ["'''Köln''' steht für:\n* [[Köln]]\n{{Begriffsklärung}}", "'''Bank'''\n[[Kategorie:Begriffsklärung]]"],
        "#WEITERLEITUNG [[Köln]]",
    ),
    "fr": (
        {-2: "Média", -1: "Spécial", 0: "", 1: "Discussion", 4: "Wikipédia", 6: "Fichier", 10: "Modèle", 14: "Catégorie"},
        ("Lyon", """{{Infobox Commune de France|nom=Lyon}}
'''Lyon''' est une [[Commune (France)|commune]] fondée au {{s|XIX}} ; elle compte {{unité|500000|habitants}}.
[[Fichier:Lyon.jpg|vignette|Vue de [[Lyon]].]]
Elle fut prise le {{date|14|juillet|1789}}. {{Citation|Avant, avant}} est sa devise.

[[Catégorie:Lyon]]"""),
        "Lyon est une commune fondée au XIXe siècle ; elle compte 500000 habitants.\n\nElle fut prise le 14 juillet 1789. "
        "« Avant, avant » est sa devise.",
        ["{{Homonymie}}\n'''Lyon'''", "'''Lyon'''\n[[Catégorie:Homonymie]]"],
        "#REDIRECTION [[Lyon]]",
    ),
    "es": (
        {-2: "Medio", -1: "Especial", 0: "", 1: "Discusión", 4: "Wikipedia", 6: "Archivo", 10: "Plantilla", 14: "Categoría"},
        ("Lima", """{{Ficha de localidad|nombre=Lima}}
[[Archivo:Lima.jpg|miniaturadeimagen|Vista]] [[Imagen:Vieja.jpg|thumb|x]]
'''Lima''' es la capital del [[Perú]] desde el {{siglo|XVI}}, a {{unidad|161|m}} de altura.

{{cita|La ciudad de los reyes.}}
[[Categoría:Lima]]"""),
        "Lima es la capital del Perú desde el siglo XVI, a 161 m de altura.\n\nLa ciudad de los reyes.",
        ["'''Lima'''\n{{desambiguación}}", "'''Lima'''\n[[Categoría:Wikipedia:Desambiguación]]"],
        "#REDIRECCIÓN [[Lima]]",
    ),
    "ja": (
        {-2: "メディア", -1: "特別", 0: "", 1: "ノート", 4: "Wikipedia", 6: "ファイル", 10: "Template", 14: "Category"},
        ("東京都", """{{都道府県|名称=東京都}}
[[ファイル:Tokyo.jpg|thumb|[[東京タワー]]]]
{{読み仮名|'''東京都'''|とうきょうと|英語: Tokyo}}は、[[日本]]の[[首都]]である<ref>出典</ref>。{{lang|en|Tokyo}}とも書く。
[[画像:Old.png|thumb|古い]]

== 歴史 ==
1943年に{{仮リンク|府県統合|en|Merger}}で成立した。

{{DEFAULTSORT:とうきようと}}
[[Category:東京都|*]]"""),
        "東京都（とうきょうと）は、日本の首都である。Tokyoとも書く。\n\n1943年に府県統合で成立した。",
        ["'''東京'''\n{{Aimai}}", "{{人名の曖昧さ回避}}\n'''田中'''", "'''東'''\n[[Category:曖昧さ回避]]"],
        "#転送 [[東京都]]",
    ),
    "ru": (
        {-2: "Медиа", -1: "Служебная", 0: "", 1: "Обсуждение", 4: "Википедия", 6: "Файл", 10: "Шаблон", 14: "Категория"},
        ("Москва", """{{НП-Россия|статус=Город}}
[[Файл:Moscow.jpg|мини|Вид на [[Кремль]]]]
'''Москва́''' ({{lang-en|Moscow}}) — столица [[Россия|России]], площадь {{число|2561}}&nbsp;км².
[[Изображение:Old.jpg|thumb]]

{{цитата|Москва, как много в этом звуке.}}
[[Категория:Москва]]"""),
        "Москва́ (Moscow) — столица России, площадь 2561 км².\n\nМосква, как много в этом звуке.",
        ["'''Москва''':\n* город\n{{неоднозначность}}", "'''Лук'''\n[[Категория:Многозначные термины]]"],
        "#перенаправление [[Москва]]",
    ),
    "zh": (
        {-2: "媒体文件", -1: "特殊", 0: "", 1: "Talk", 4: "Wikipedia", 6: "File", 10: "Template", 14: "Category"},
        ("北京市", """{{NoteTA|1=zh-hans:博客; zh-hant:部落格}}
[[文件:Beijing.jpg|缩略图|[[故宫]]]]
'''北京市'''（{{lang-en|Beijing}}），是[[中華人民共和國|中国]]的首都，-{zh-hans:信息; zh-hant:資訊}-与-{里}-程。
[[檔案:Old.jpg|thumb|x]]{{le|某地|Some place}}在北部。

[[Category:北京市]]"""),
        "北京市（Beijing），是中国的首都，信息与里程。 某地在北部。",
        ["'''北京'''\n{{disambig}}", "'''北京'''\n{{消歧义}}", "'''北京'''\n[[Category:全部消歧義頁面]]"],
        "#重定向 [[北京市]]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", EDITIONS)
def test_edition(tmp_path, monkeypatch, language):
    monkeypatch.setenv("MUNDAP_THREADS", "1")
    namespaces, (title, text), expected, ambiguous, redirect = EDITIONS[language]
    parts = [
        page(1, title, text),
        page(2, f"{namespaces[14]}:X", "Text of a category.", space=14),
        page(3, "R", redirect),
    ]
    parts += [page(10 + number, f"D{number}", one) for number, one in enumerate(ambiguous)]
    data = bz2.compress(plain(parts, language=language, namespaces=namespaces))
    (document,) = read(file(tmp_path / f"{language}wiki-latest-pages-articles.xml.bz2", data))
    assert document.text == expected
    assert (document.id, document.title) == (f"{language}wiki:1", title)
    assert document.metadata["language"] == language
    assert document.metadata["url"] == f"https://{language}.wikipedia.org/wiki/{quote(title)}"


def test_a_word_of_another_language_means_nothing(tmp_path):
    german = Site("dewiki", "de")
    assert german.disambiguates(frozenset({"begriffsklärung"}), frozenset())
    assert not german.disambiguates(frozenset({"동음이의", "des", "dp"}), frozenset({"homonymie"}))
    assert Site("simplewiki", "simple").disambiguates(frozenset({"hndis"}), frozenset())
    assert Site("nowiki", "nb").disambiguates(frozenset({"peker"}), frozenset())


def test_the_tables_are_written_as_names_are_compared():
    for table in (DISAMBIGUATION_TEMPLATES, DISAMBIGUATION_CATEGORIES, DROPPED_PREFIXES):
        assert all(name == normal(name) for names in table.values() for name in names)


def test_what_the_head_does_not_say_is_told_by_the_name():
    assert Site.parse("<mediawiki>", "kowiki-20240101-pages-articles.xml.bz2").language == "ko"
    assert Site.parse("", "zh_min_nanwiki-latest.xml").language == "zh-min-nan"
    site = Site.parse("<mediawiki>", "mine.xml")
    assert (site.name, site.language, site.address("A")) == ("wiki", "en", "")
