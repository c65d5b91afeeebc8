"""Circuits: which operations decide an answer, what they match on, and whether merging of paths explains it.

The method of *Transformers Struggle to Learn to Search* (ICLR 2025), section 4 and appendix A.8, for transformers of
any number of heads and loops.

    measured = measure(Stack(model, loops), Layout.of(graphs, row, "triples"), Settings())
    circuit = explain(measured)  # and explain(measured, other thresholds) without measuring again
"""

from ..circuit_settings import Settings
from .circuit import Circuit, explain
from .effects import Measured, measure
from .layout import Layout
from .stack import Stack

__all__ = ["Circuit", "Layout", "Measured", "Settings", "Stack", "explain", "measure"]
