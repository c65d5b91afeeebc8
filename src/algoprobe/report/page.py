"""A static page from run folders: one HTML file that needs no network, and its charts as PNG, SVG and PDF beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from algoprobe.core.config import digest
from algoprobe.core.errors import AlgoprobeError, UsageError
from algoprobe.core.files import write_text

from . import facts, tables
from .runs import RunData, by_label, load
from .verdict import WORDS

PICTURES = (".png", ".svg", ".pdf")


def write(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write the page of the runs in `folders` and return its path, `…/index.html`.

    It goes to `out`; without it, to `report/` inside the folder of a single run and to `runs/report-<digest>/` for
    several. A run that still trains, or was never tested, gets a page that says so.

    Raises `AlgoprobeError` when a folder is no run folder or a file in it is damaged.
    """
    if not folders:
        raise UsageError("report: no run folder given; name one or more.")
    runs = by_label([load(folder) for folder in folders])
    try:
        return render(runs, out)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        places = ", ".join(str(folder) for folder in folders)
        raise AlgoprobeError(
            f"cannot draw a page of {places}: a file holds something unexpected ({error!r})"
        ) from error


def render(runs: dict[str, RunData], out: Path | None) -> Path:
    """Draw the figures of `runs`, fill the template, write both; the page's path."""
    # Altair takes a second to import, which help and listing need not wait for.
    from . import figures, pictures

    target = place(list(runs.values()), out)
    sections = pictures.figures(runs)
    drawn = {figure.name: figure.chart for section in sections.values() for figure in section}
    figures.save_all(drawn, target, PICTURES)
    examples = {label: pictures.examples(run, most=6 if len(runs) == 1 else 3) for label, run in runs.items()}
    page = _template().render(
        _words(runs),
        sections=sections,
        specs={name: figures.script_json(figures.specification(chart)) for name, chart in drawn.items()},
        examples={label: found for label, found in examples.items() if found},
        javascript=figures.javascript() if drawn else "",
        suffixes=PICTURES,
    )
    path = target / "index.html"
    write_text(path, page)
    return path


def place(runs: Sequence[RunData], out: Path | None) -> Path:
    """The folder that the page of `runs` goes to."""
    if out is not None:
        return Path(out)
    if len(runs) == 1:
        return runs[0].folder / "report"
    return Path("runs") / f"report-{digest([run.name for run in runs])}"


def _words(runs: dict[str, RunData]) -> dict[str, Any]:
    differing, common = facts.config_rows(runs)
    tested = {label: run for label, run in runs.items() if run.cells}
    return {
        "title": next(iter(runs)) if len(runs) == 1 else f"{len(runs)} runs compared",
        "runs": runs,
        "headline": facts.headline(runs),
        "descriptions": {label: facts.description(run) for label, run in runs.items()},
        "tiles": facts.tiles(runs),
        "notices": facts.notices(runs),
        "verdicts": WORDS,
        "table": tables.accuracy_table(tested).html() if tested else "",
        "markdown": tables.accuracy_table(tested).markdown() if tested else "",
        "leaks": {label: found for label, run in runs.items() if any(found := facts.leaks(run))},
        "baselines": {label: found for label, run in runs.items() if (found := facts.card_baselines(run))},
        "differing": differing,
        "common": common,
        "records": {label: json.dumps(run.record, indent=1, ensure_ascii=False) for label, run in runs.items()},
    }


def _template() -> Any:
    import jinja2

    text = resources.files(__package__).joinpath("page.html.jinja").read_text(encoding="utf-8")
    strict = {"autoescape": True, "undefined": jinja2.StrictUndefined}
    return jinja2.Environment(**strict, trim_blocks=True, lstrip_blocks=True).from_string(text)
