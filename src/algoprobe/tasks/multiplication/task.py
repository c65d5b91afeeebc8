"""The multiplication task: pairs of operands drawn, encoded, graded; the same for training, validation and test."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Int32

from algoprobe.core.errors import outside, unknown
from algoprobe.core.permutation import places
from algoprobe.core.stream import Stream, check_split
from algoprobe.tasks.batch import IGNORE, Batch
from algoprobe.tasks.openable import Pair
from algoprobe.tasks.task import Cell

from .config import MultiplicationConfig
from .encoding import counted_columns, encode, removal_stages, sizes
from .operands import Operands, written
from .sampling import TEST, TRAIN, VALIDATION, drawn, first_distinct, offsets


class MultiplicationTask:
    """Name the digits of a · b, the least significant first.

    task = MultiplicationTask(MultiplicationConfig())
    batch = task.sample("train", 0, np.arange(128))

    Answers are given to true earlier digits (teacher forcing): all digits are right then exactly when they are right
    when the model reads its own answers. Source: arXiv 2510.00184; implicit chain of thought: arXiv 2405.14838.
    """

    name = "multiplication"
    counted = ()
    summed = ("running_sum", "product_sum")
    """Names of whole numbers that `intermediate` gives at the columns that answer."""

    def __init__(self, config: MultiplicationConfig, stage: int | None = None, test_digits: int | None = None):
        self.config = config
        self.sizes = sizes(config)
        self.stage_axis = "stage" if config.chain == "implicit" else "digits"
        self.stage = self.stages() if stage is None else stage
        self.test_digits = test_digits
        self.ordered = config.most_trained > 1 if config.chain != "implicit" else True

    def stages(self) -> int:
        """Implicit: a curriculum walks through the removals of the chain. Otherwise it grows the operands by digits.

        A fixed training set has no stages of the latter kind.
        """
        if self.config.chain == "implicit":
            return len(removal_stages(self.config))
        return 1 if self.config.train_rows else self.config.most_trained

    def at_stage(self, stage: int) -> MultiplicationTask:
        """The task with so much of the chain removed, or operands of at most `stage` digits; the same test rows."""
        if not 1 <= stage <= self.stages():
            raise outside("stage", stage, f"1 to {self.stages()}")
        return MultiplicationTask(self.config, stage, self.test_digits)

    def at_size(self, n: int) -> MultiplicationTask:
        """The task with test rows of n digits each, with zeros above them up to this one's digits."""
        most = min(self.config.digits, self.config.b_digits)
        known = [size for size in range(2, most + 1) if self.config.spares(size, size)]
        if n not in known:
            span = f"{known[0]} to {most} (too few pairs below, no places above)" if known else "none"
            raise outside("n", n, span)
        return MultiplicationTask(self.config, self.stage, n)

    def operands(self, split: str, seed: int, indices: Int[np.ndarray, "batch"]) -> Operands:
        """The operands of a stream at `indices`; the layout does not matter."""
        check_split(split)
        config = self.config
        most = config.most_trained if config.chain == "implicit" or config.train_rows else self.stage
        grown = "" if most == config.most_trained else f" {most}"
        key = Stream(self.name, config.train_digest + grown, split, seed).key
        if split == "validation":
            return drawn(config, key, indices, VALIDATION, most)
        if config.train_rows:
            fixed = first_distinct(config, "train", TRAIN, config.train_rows)
            return fixed[places(key, indices, len(fixed))]
        return drawn(config, key, indices, TRAIN, most)

    def sample(self, split: str, seed: int, indices: Int[np.ndarray, "batch"]) -> Batch:
        """The rows of a stream at `indices`: each a pure function of (config, split, seed, its index).

        `validation` has pairs that no other split holds, and is judged by the product alone, given the true chain;
        every other split but `test` has training rows. Of an implicit chain each row has lost what the stage says, and
        in training a little more at random.
        """
        indices = np.ascontiguousarray(indices, np.int64)
        operands, config = self.operands(split, seed, indices), self.config
        removed = np.full(len(indices), removal_stages(config)[self.stage - 1] if config.chain == "implicit" else 0)
        if config.chain == "implicit" and config.smoothing is not None and split != "validation":
            key = Stream(self.name, config.train_digest + " removal", split, seed).key
            removed = np.minimum(removed + offsets(key, indices, config.smoothing), config.chain_length)
        batch = self.staged(encode(operands, config, removed, indices))
        return judged_by_product(batch, config.product_digits) if split == "validation" else batch

    def staged(self, batch: Batch) -> Batch:
        """`batch` with the stage as an axis where the stages are removals."""
        if self.config.chain != "implicit":
            return batch
        return replace(batch, axes=batch.axes | {"stage": np.full(len(batch), self.stage)})

    def cells(self, on: tuple[str, ...] = ()) -> list[Cell]:
        """The whole product, and each of its digits alone, on the same rows."""
        for name in on:
            if name != self.config.distribution:
                raise unknown("on", name, [self.config.distribution])
        places_ = (None, *range(self.config.product_digits))
        return [Cell("digit", k, self.config.distribution) for k in places_]

    def test(self, cell: Cell, rows: int) -> Batch:
        """The first `rows` test rows, or all there are; the same for every layout and training mix.

        Of the cell of one digit every answer to the others is accepted. Of an explicit chain every answer is, but the
        model reads what it has written itself (`decoded`).
        """
        if cell not in self.cells():
            raise unknown("cell", cell.name, [known.name for known in self.cells()])
        if not 1 <= rows <= self.config.test_rows:
            raise outside("rows", rows, f"1 to {self.config.test_rows} (task.test_rows, the test rows of each cell)")
        batch = test_batch(self.config, self.test_digits, rows)
        if cell.value is not None:
            others = (
                np.arange(batch.targets.shape[1]) != batch.targets.shape[1] - self.config.product_digits + cell.value
            )
            batch = replace(batch, accepted=batch.accepted | others[:, None])
        return self.staged(batch)

    def grade(self, batch: Batch, answers: Any) -> Bool[np.ndarray, "batch"]:
        """Whether each row's answers are accepted at every column that has a target.

        `answers` are class ids, `[batch, read]`. Raises `UsageError` on another shape.
        """
        ids = np.asarray(answers)
        if ids.shape != batch.targets.shape or not np.issubdtype(ids.dtype, np.integer):
            raise outside(
                "answers",
                f"{ids.dtype} of shape {list(ids.shape)}",
                f"whole numbers of shape {list(batch.targets.shape)}, the class with the largest logit",
            )
        chosen = np.take_along_axis(batch.accepted, ids[..., None].astype(np.int64), axis=2)[..., 0]
        return (chosen | (batch.targets == IGNORE)).all(1)

    def intermediate(self, batch: Batch) -> dict[str, Int32[np.ndarray, "batch columns"]]:
        """ĉ_k (`running_sum`) and s_k (`product_sum`) at the column that answers c_k, `IGNORE` elsewhere."""
        found, digits = {}, self.config.product_digits
        for name, values in (("running_sum", batch.source.running_sums), ("product_sum", batch.source.product_sums)):
            found[name] = np.full(batch.tokens.shape[:2], IGNORE, np.int32)
            found[name][:, -digits:] = values
        return found

    def baselines(self, batch: Batch) -> dict[str, Float[np.ndarray, "batch"]]:
        """Probability that each shortcut answers each row right (see `baselines`)."""
        from .baselines import baselines

        counted = counted_columns(batch)[:, -self.config.product_digits :]
        return baselines(batch.source, counted, self.config, self.test_digits)

    def card(self, seed: int, rows: int) -> dict[str, Any]:
        """Config, counts and histograms of `rows` training rows, as JSON values."""
        from .card import card

        return card(self, seed, rows)

    def leaks(self, seed: int, rows: int) -> dict[str, Any]:
        """How many of `rows` training rows stand among the test rows, in either order of the operands."""
        from .leaks import leaks

        return leaks(self, seed, rows)

    def worked(self, batch: Batch, row: int, answer: Int[np.ndarray, "read"]) -> dict[str, Any]:
        """One row with the answer given to it, as JSON values: what `draw` takes."""
        source, base = batch.source, batch.source.base
        said = (answer[-self.config.product_digits :] - 1).tolist()
        a, b, product = (part[row].tolist() for part in (source.a, source.b, source.product))
        return {
            "base": base,
            "multiply": f"{written(a, base)} × {written(b, base)}" + ("" if base == 10 else f" in base {base}"),
            "answer": written(said, base),
            "accepted": [written(product, base)],
            "a": a,
            "b": b,
            "running_sums": source.running_sums[row].tolist(),
            "product": product,
            "said": said,
            "index": int(batch.index[row]),
        }

    def draw(self, worked: dict[str, Any]) -> str:
        """An SVG drawing of what `worked` returned, with the answer marked."""
        from .drawing import draw

        return draw(worked)

    def pair(self, batch: Batch) -> Pair:
        """Rows beside others that have another digit at every place of the product (see `opening.pair`)."""
        from .opening import pair

        return pair(batch, self.config)

    def column_kinds(self, batch: Batch) -> dict[str, Bool[np.ndarray, "batch columns"]]:
        """a0, a1, …, *, b0, …, E, chain, and the columns that answer: c0, c1, …"""
        from .opening import column_kinds

        return column_kinds(batch, self.config)

    def column_targets(self, batch: Batch) -> dict[str, Float[np.ndarray, "batch columns"]]:
        """Carries and digits of the product, at the columns that answer (see `opening`)."""
        from .opening import column_targets

        return column_targets(batch, self.config)

    def column_numbers(self, batch: Batch) -> dict[str, Float[np.ndarray, "batch columns"]]:
        """ĉ_k, the running sum of each digit, at the column that answers it."""
        from .opening import column_numbers

        return column_numbers(batch, self.config)


@lru_cache(maxsize=8)
def test_batch(config: MultiplicationConfig, digits: int | None, rows: int) -> Batch:
    """The first `rows` test rows, each operand with all its digits, or with `digits` of them."""
    drawn_as = config if digits is None else replace(config, digits=digits, digits_b=digits)
    # The layout changes no operand, so that one draw serves every regime.
    drawn_as = replace(
        drawn_as, chain="none", places="sequence", trained_digits=None, shorter=0.0, sparse=0.0, train_rows=0
    )
    operands = first_distinct(drawn_as, "test", TEST, config.test_rows)[:rows].padded(config.digits, config.b_digits)
    gone = config.chain_length if config.chain == "implicit" else 0
    batch = encode(operands, config, np.full(len(operands), gone), np.arange(len(operands)))
    return replace(judged_by_product(batch, config.product_digits), decoded=config.chain == "explicit")


def judged_by_product(batch: Batch, digits: int) -> Batch:
    """`batch` with every answer accepted in what is left of the chain before the last `digits` columns."""
    written = np.arange(batch.targets.shape[1]) < batch.targets.shape[1] - digits
    return replace(batch, accepted=batch.accepted | written[:, None])
