"""The hooks of the documentation site: its pages load nothing from elsewhere, and their links lead somewhere."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

SITE = Path(__file__).parent.parent / "docs" / "site.py"


@pytest.fixture
def site(monkeypatch):
    """docs/site.py. It takes two names from mkdocs, which the tests are not installed with."""
    if importlib.util.find_spec("mkdocs") is None:
        for name, member in (("exceptions", "PluginError"), ("structure.files", "File")):
            module = ModuleType(f"mkdocs.{name}")
            setattr(module, member, type(member, (Exception,), {}))
            monkeypatch.setitem(sys.modules, f"mkdocs.{name}", module)
    spec = importlib.util.spec_from_file_location("docs_site", SITE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", "<script src='https://cdn.example/x.js'></script>"),
        ("a.html", "<img src='//cdn.example/x.png'>"),
        ("a.html", "<link rel='stylesheet' href='https://fonts.example/css'>"),
        ("a.html", "<link rel='preconnect' href='https://fonts.example'>"),
        ("a.css", "@import 'https://fonts.example/css';"),
        ("a.css", "body { background: url(https://cdn.example/x.png) }"),
    ],
)
def test_a_page_that_loads_something_from_elsewhere_ends_the_build(site, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(site.PluginError, match=f"{name} loads .*example"):
        site.on_post_build({"site_dir": str(tmp_path)})


def test_links_to_click_and_files_of_the_site_are_no_requests(site, tmp_path):
    (tmp_path / "a.html").write_text(
        "<a href='https://example.org'>x</a><script src='assets/x.js'></script><link rel='canonical' href='https://x.example'>"
    )
    (tmp_path / "a.css").write_text("body { background: url(x.png) }")
    site.on_post_build({"site_dir": str(tmp_path)})


def test_links_lead_to_pages_of_the_site_or_become_names(site):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    found = site.on_page_markdown(
        "[a](docs/formats.md#x) [b](SECURITY.md) [c](Makefile) [d](https://example.org)", page
    )
    assert found == "[a](formats.md#x) [b](security.md) c [d](https://example.org)"
    with pytest.raises(site.PluginError, match="nowhere.md, which is not there"):
        site.on_page_markdown("[a](nowhere.md)", page)
