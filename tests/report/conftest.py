import pytest

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 60"><title>{}</title>'
    '<circle cx="20" cy="30" r="10"/><path d="M30 30H90"/><circle cx="100" cy="30" r="10"/></svg>'
)


@pytest.fixture
def drawing(monkeypatch):
    """A stand-in for the task's drawing, so that these tests hold without the search room."""
    from algoprobe.report import pictures

    monkeypatch.setattr(pictures, "_drawing", lambda kind: lambda example: SVG.format(example["goal"]))


@pytest.fixture
def no_pictures(monkeypatch):
    """A page without its PNG, SVG and PDF files, which take longest."""
    from algoprobe.report import page

    monkeypatch.setattr(page, "PICTURES", ())
