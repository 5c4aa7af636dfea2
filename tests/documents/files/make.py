"""Makes the small files of this folder with the programs people use: python-docx, python-pptx, openpyxl, odfpy, nbformat's
layout, the email library. Run it again only to change them: `pip install python-docx python-pptx openpyxl odfpy`. The files `libreoffice.*` are what
`soffice --headless --convert-to SUFFIX` made of a sheet, a page of HTML and harbour.pptx."""

import json
import mailbox
import zipfile
from datetime import date
from email.message import EmailMessage
from pathlib import Path

HERE = Path(__file__).parent


def docx():
    import docx

    made = docx.Document()
    made.core_properties.title, made.core_properties.author = "Expedition report", "Kim Minji"
    made.add_heading("The journey", 1)
    made.add_paragraph("We left Busan on 3 May. The sea was calm for nine days.")
    made.add_heading("Provisions", 2)
    made.add_paragraph("forty sacks of rice", style="List Bullet")
    made.add_paragraph("two barrels of kimchi", style="List Bullet")
    table = made.add_table(3, 3)
    rows = [("Island", "Height", "Inhabitants"), ("Jeju", "1,947 m", "676,000"), ("Ulleung", "984 m", "9,000")]
    for row, cells in zip(table.rows, rows, strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    made.add_paragraph("한라산은 제주도에 있다.")
    made.save(HERE / "report.docx")


def pptx():
    from pptx import Presentation
    from pptx.util import Inches

    made = Presentation()
    made.core_properties.title, made.core_properties.author = "Harbour plans", "Lee Jun"
    first = made.slides.add_slide(made.slide_layouts[0])
    first.shapes.title.text, first.placeholders[1].text = "Harbour plans", "Spring meeting"
    second = made.slides.add_slide(made.slide_layouts[1])
    second.shapes.title.text = "Costs"
    second.placeholders[1].text = "The new quay costs 12 million won.\nDredging takes until August."
    second.notes_slide.notes_text_frame.text = "Mention that the ferry pays a third of it."
    third = made.slides.add_slide(made.slide_layouts[5])
    third.shapes.title.text = "Berths"
    table = third.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for number, text in enumerate(("Berth", "Depth", "North pier", "11 metres")):
        table.cell(number // 2, number % 2).text = text
    made.save(HERE / "harbour.pptx")


def xlsx():
    from openpyxl import Workbook

    made = Workbook()
    made.properties.title, made.properties.creator = "Stock", "Park"
    sheet = made.active
    sheet.title = "Tea"
    for row in (
        ("Sort", "Price", "Harvested"),
        ("Sejak", 48.5, date(2024, 5, 9)),
        ("Ujeon", 0.1 + 0.2, date(2024, 4, 18)),
    ):
        sheet.append(row)
    other = made.create_sheet("Staff")
    other.append(("Name", "Town"))
    other.append(("Choi Yuna", "Boseong"))
    made.save(HERE / "stock.xlsx")


def opendocument():
    from odf import draw, meta, style, table, text
    from odf.opendocument import OpenDocumentPresentation, OpenDocumentText

    made = OpenDocumentText()
    made.meta.addElement(meta.InitialCreator(text="Jung Haneul"))
    made.text.addElement(text.H(outlinelevel=1, text="Beekeeping"))
    made.text.addElement(text.P(text="A hive in summer holds fifty thousand bees."))
    items = text.List()
    for words in ("smoker", "veil"):
        item = text.ListItem()
        item.addElement(text.P(text=words))
        items.addElement(item)
    made.text.addElement(items)
    grid = table.Table(name="Honey")
    for cells in (("Flower", "Month"), ("Acacia", "May"), ("Chestnut", "June")):
        row = table.TableRow()
        for words in cells:
            cell = table.TableCell()
            cell.addElement(text.P(text=words))
            row.addElement(cell)
        grid.addElement(row)
    made.text.addElement(grid)
    made.save(HERE / "bees.odt")

    shown = OpenDocumentPresentation()
    layout = style.PageLayout(name="L")
    shown.automaticstyles.addElement(layout)
    master = style.MasterPage(name="M", pagelayoutname=layout)
    shown.masterstyles.addElement(master)
    for heading, words in (("Why bees", "They pollinate apples."), ("When", "The meeting is on 2 June.")):
        page = draw.Page(masterpagename=master)
        for kind, content in (("title", heading), ("outline", words)):
            frame = draw.Frame(width="10cm", height="2cm")
            frame.setAttrNS("urn:oasis:names:tc:opendocument:xmlns:presentation:1.0", "class", kind)
            box = draw.TextBox()
            box.addElement(text.P(text=content))
            frame.addElement(box)
            page.addElement(frame)
        shown.presentation.addElement(page)
    shown.save(HERE / "bees.odp")


def epub():
    page = "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>x</title></head><body><h1>{}</h1><p>{}</p></body></html>"
    with zipfile.ZipFile(HERE / "tales.epub", "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        container = "urn:oasis:names:tc:opendocument:xmlns:container"
        book.writestr(
            "META-INF/container.xml",
            f"<container xmlns='{container}'><rootfiles><rootfile full-path='OEBPS/c.opf'/></rootfiles></container>",
        )
        book.writestr("OEBPS/c.opf", "<package xmlns='http://www.idpf.org/2007/opf' xmlns:dc='http://purl.org/dc/elements/1.1/'>"
                      "<metadata><dc:title>Tales of the shore</dc:title><dc:creator>Han Areum</dc:creator><dc:language>en</dc:language></metadata>"
                      "<manifest><item id='b' href='two.xhtml'/><item id='a' href='one.xhtml'/></manifest>"
                      "<spine><itemref idref='a'/><itemref idref='b'/></spine></package>")  # fmt: skip
        book.writestr("OEBPS/one.xhtml", page.format("The lighthouse", "Its keeper was called Dogyeong."))
        book.writestr("OEBPS/two.xhtml", page.format("The storm", "It came from the north in October."))


def mails():
    made = EmailMessage()
    made["Subject"], made["From"], made["To"] = "Ferry tickets", "Kim <kim@example.org>", "lee@example.org"
    made["Date"] = "Fri, 03 May 2024 10:00:00 +0900"
    made.set_content("Dear Lee,\n\nthe ferry leaves at 07:40 from pier 3.\n\n> When does it leave?\n")
    made.add_alternative("<p>Dear Lee, the <b>ferry</b> leaves at 07:40.</p>", subtype="html")
    (HERE / "ferry.eml").write_bytes(bytes(made))
    path = HERE / "list.mbox"
    path.unlink(missing_ok=True)
    box = mailbox.mbox(path)
    for number, words in enumerate(("The quay is closed on Monday.", "It opens again on Thursday.")):
        one = EmailMessage()
        one["Subject"], one["From"], one["Date"] = (
            f"Quay {number}",
            "harbour@example.org",
            "Mon, 06 May 2024 08:00:00 +0900",
        )
        one.set_content(words)
        box.add(one)
    box.close()


def texts():
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Tides\n", "\n", "High water comes twice a day."]},
        {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": ["print(12.4)"],
         "outputs": [{"output_type": "stream", "name": "stdout", "text": ["12.4\n"]}]},
    ]  # fmt: skip
    (HERE / "tides.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    (HERE / "stock.csv").write_text('Sort,Price,Note\nSejak,48,"first, and best"\nUjeon,30,\n')
    (HERE / "notes.rtf").write_bytes(
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title Pilot notes}}\f0 The buoy is \b red\b0  and 3 m high.\par "
        rb"Caf\'e9 opens at six. \u49436?\u50872? is far.\par\trowd\cellx1\cellx2 Light\cell Colour\cell\row "
        rb"\trowd\cellx1\cellx2 East\cell green\cell\row}"
    )
    (HERE / "guide.rst").write_text(
        "Sailing guide\n=============\n\nSee :ref:`the chart <chart>` and ``make sail``.\n\nKnots\n-----\n\n* bowline, for *loops*\n"
        "* reef knot\n\n.. note:: Never tie a wet rope.\n\n.. code-block:: sh\n\n   tie --knot bowline\n\n.. image:: knot.png\n"
    )
    (HERE / "guide.adoc").write_text(
        "= Rope guide\n:toc:\n\nRead link:x.html[the manual] first.\n\n== Kinds\n\nhemp::\n  A rope of *plant* fibres.\n\n"
        "----\nsplice --long\n----\n\n|===\n|Rope |Strength\n\n|hemp |900 kg\n|===\n"
    )
    (HERE / "sail.1").write_text(
        '.TH SAIL 1 "2024-05-01"\n.SH NAME\nsail \\- move by wind\n.SH OPTIONS\n.TP\n.BR \\-r , " \\-\\-reef"\nTake in a \\fBreef\\fR.\n'
        ".TP\n.B \\-a\nDrop the anchor.\n.SH EXAMPLES\n.nf\nsail -r 2\n.fi\n"
    )
    (HERE / "paper.tex").write_text(
        "\\documentclass{article}\n\\title{On tides}\n\\author{Kim S\\'eo}\n\\begin{document}\n\\maketitle\n\\section{Moon}\n"
        "The moon \\emph{pulls} the water~\\cite{k}. % why\n\\begin{itemize}\n\\item spring tide\n\\item[neap] the weak one\n"
        "\\end{itemize}\n\\begin{tabular}{lr}\nPort & Range \\\\ \\hline\nIncheon & 9 m \\\\\n\\end{tabular}\n\\end{document}\n"
    )
    (HERE / "film.srt").write_text(
        "1\n00:00:01,000 --> 00:00:03,000\nThe captain <i>left</i>\n\n2\n00:00:03,000 --> 00:00:05,000\nat dawn.\n\n"
        "3\n00:02:00,000 --> 00:02:02,000\nNobody saw him again.\n"
    )
    (HERE / "tide.py").write_text(
        '"""Computes the height of the tide."""\n\n\ndef height(hour):\n    """Return metres above the chart datum at an hour."""\n'
        "    # The period of the moon is a little over twelve hours.\n    return hour\n"
    )
    (HERE / "tide.c").write_text(
        "/* Copyright 2024 somebody */\n\n/**\n * Opens the harbour gate.\n * Never call it at night.\n */\nint gate(void);\n\n"
        "// The lamp burns for six hours\n// after sunset.\nint lamp;\n"
    )


if __name__ == "__main__":
    for one in (docx, pptx, xlsx, opendocument, epub, mails, texts):
        one()
