"""A strict reader of HTML for tests: balanced tags, unique ids, and every address that a browser would fetch."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "link", "input", "hr"}
FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("image", "href"), ("source", "src")}


class Markup(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.append(name)
            if (tag, name) in FETCHED:
                self.fetched.append(value)
            if (tag, name) == ("a", "href"):
                self.links.append(value)
            if name == "id":
                self.ids.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())
