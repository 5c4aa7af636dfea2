import pytest

from mundap.engines import Address, is_address
from mundap.errors import UsageError


def test_parts():
    address = Address.parse("milvus://me@db.example/books/english?tls=1&timeout=5&patience=7&consistency=Strong")
    assert (address.place, address.database, address.collection, address.user) == (
        "db.example:19530",
        "books",
        "english",
        "me",
    )
    assert address.encrypted and (address.seconds, address.patience, address.consistency) == (5, 7, "Strong")
    assert Address.parse("milvus://h:1/c").place == "h:1"
    assert Address.parse("milvus://[::1]:1/c").place == "[::1]:1"
    assert not Address.parse("milvus://h/c").encrypted
    lite = Address.parse("milvus+lite:///tmp/my%20index.db?collection=a")
    assert (lite.place, lite.collection) == ("/tmp/my index.db", "a")
    assert is_address("milvus://h/c") and not is_address("folder/milvus")


def test_secrets_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("MUNDAP_MILVUS_PASSWORD", "secret")
    monkeypatch.setenv("MUNDAP_MILVUS_TOKEN", "token")
    assert Address.parse("milvus://me@h/c").token == "me:secret"
    assert Address.parse("milvus://h/c").token == "token"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("redis://h/c", "addresses begin with milvus"),
        ("milvus://h", "write it as milvus://HOST"),
        ("milvus://h/a/b/c", "write it as"),
        ("milvus:///c", "write it as"),
        ("milvus://h:99999/c", "the port"),
        ("milvus://[::1/c", "no address"),
        ("milvus://h/a-b", "letters, digits and _"),
        ("milvus://me:pw@h/c", "MUNDAP_MILVUS_PASSWORD"),
        ("milvus://h/c?colour=red", "colour: no such option"),
        ("milvus://h/c?consistency=Vague", "choose one of Strong"),
        ("milvus://h/c?ca=/nowhere.pem", "ca=/nowhere.pem: no such file"),
        ("milvus+lite:///tmp/folder", "ends in .db"),
    ],
)
def test_what_is_no_address(text, said):
    with pytest.raises(UsageError, match=said):
        Address.parse(text)


def test_seconds_are_numbers():
    with pytest.raises(UsageError, match="patience must be a number of seconds"):
        _ = Address.parse("milvus://h/c?patience=soon").patience
