"""Charts as files: `.png`, `.svg`, `.pdf`, `.json` (the Vega-Lite specification), and `.html` that needs no network."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from algoprobe.core.errors import outside
from algoprobe.core.files import write_bytes

SUFFIXES = (".png", ".svg", ".pdf", ".html", ".json")
WIDTH = 640
"""Width in px of a saved picture whose chart has none of its own."""


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """The Vega-Lite specification of `chart`, its data inside.

    Characters that are not Unicode, as in the name of a folder that is not UTF-8, become question marks.
    """
    spec = chart.to_dict()
    text = json.dumps(spec, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode(errors="replace"))
    return spec


@cache
def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; it defines `vegaEmbed`."""
    # A closing tag or comment in a string would end the script element that holds the bundle.
    return vl_convert.javascript_bundle().replace("</script", "<\\/script").replace("<!--", "<\\!--")


def save(chart: alt.TopLevelMixin, path: str | Path, width: int = WIDTH) -> Path:
    """Write `chart` in the format that the suffix of `path` names, whole or not at all.

    `width` (px) is that of the plot where the chart takes the width of its page. PNG has two pixels a px.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise outside("path", str(path), f"a file name ending in {', '.join(SUFFIXES)}")
    spec = specification(chart)
    if suffix not in (".html", ".json") and spec.get("width") == "container":
        spec["width"] = width
    if suffix == ".json":
        content = json.dumps(spec, indent=1).encode()
    elif suffix == ".html":
        content = _page(spec).encode()
    else:
        svg = _svg(json.dumps(spec))
        if suffix == ".png":
            content = vl_convert.svg_to_png(svg, scale=2)
        elif suffix == ".pdf":
            content = vl_convert.svg_to_pdf(svg)
        else:
            content = svg.encode()
    write_bytes(path, content)
    return path


@lru_cache(maxsize=1)
def _svg(spec: str) -> str:
    """The drawing of a specification; kept for the next format of the same chart, since drawing takes longest."""
    return vl_convert.vegalite_to_svg(spec)


def save_all(
    charts: Mapping[str, alt.TopLevelMixin], folder: str | Path, suffixes: Iterable[str] = (".png", ".svg", ".pdf")
) -> list[Path]:
    """Write every chart under its name, once for each suffix."""
    return [save(chart, Path(folder) / f"{name}{s}") for name, chart in charts.items() for s in suffixes]


def script_json(value: Any) -> str:
    """`value` as JSON that can stand inside a script element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _page(spec: dict[str, Any]) -> str:
    title = html.escape(str(spec.get("description", "chart")))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<style>body{margin:1rem;background:#fff}#chart{width:100%}</style></head>"
        f'<body><div id="chart"></div><script>{javascript()}</script>'
        f'<script>vegaEmbed("#chart",{script_json(spec)},{{actions:false,renderer:"svg"}})</script></body></html>\n'
    )
