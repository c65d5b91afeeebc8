"""Circuits of single answers as pictures: `draw` makes an SVG, `page` one interactive HTML file of several circuits,
`summary` a few words.

All take circuits as JSON values: `encoding`, `graph` (`edges`, `start`, `goal`), `answer`, `logit`, `steps`,
`columns`, `nodes`, `operations` and `explained`; `cell`, `row` and `accepted` (right answers) may stand beside them.
"""

from .drawing import draw
from .page import page
from .reading import summary

__all__ = ["draw", "page", "summary"]
