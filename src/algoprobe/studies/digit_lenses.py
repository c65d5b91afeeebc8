"""Lenses on models that multiply: what each digit of the product depends on, where sums are, what shape states have.

Source of all: *Why Can't Transformers Learn Multiplication?* (arXiv 2510.00184), §3, by the procedures that
docs/multiply.md gives. Each works for any number of blocks, heads and loops, and for every regime.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from algoprobe.core.errors import AlgoprobeError, UsageError, outside
from algoprobe.core.run import find_run
from algoprobe.probes.attention_tree import AttentionTree, attention_tree
from algoprobe.probes.counterfactual import counterfactual_attribution
from algoprobe.probes.geometry import best_pair, fourier_fit, paper_frequencies, principal_components
from algoprobe.probes.inputs import Inputs, answer_logits
from algoprobe.probes.patterns import attention_for
from algoprobe.probes.record import record
from algoprobe.tasks.multiplication.opening import column_names, exchanged_digits
from algoprobe.tasks.multiplication.task import MultiplicationTask

from .lens_kinds import Found, Subject, View


def multiplied(subject: Subject) -> MultiplicationTask:
    """The task of `subject`. Raises `UsageError` when it is another family's."""
    if not isinstance(subject.task, MultiplicationTask):
        raise UsageError(
            f"kind: {subject.options.kind!r} is for multiplication; this run's task is {subject.task.name}"
        )
    return subject.task


FEWEST_ROWS = 20
"""Rows below which the geometry of states says nothing."""


def answered(k: int) -> str:
    """The name of a digit of the product."""
    return f"c{k}"


def digits(subject: Subject) -> Found:
    """Accuracy, loss and gradient norm of each digit through training, as its log has them."""
    multiplied(subject)
    rows = digits_through_training(find_run(subject.options.run).metrics)
    if not rows:
        raise AlgoprobeError("the run has logged no columns; train with --train.column-rows 256")
    shown, looks = thinned(rows, 14), len({row["examples"] for row in rows})
    note = (
        f"On {rows[0]['rows']} held-out rows of the training mix, {min(14, looks)} of {looks} validations; losses and "
        "gradient norms with --json."
    )
    return shown, View("Digits through training", note, "digit", "examples", "accuracy", table=("examples", "digit"))


def digits_through_training(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each validation and digit of a run's log."""
    return [
        {"examples": line["examples"], "digit": answered(cell["column"])}
        | {name: cell[name] for name in ("accuracy", "loss", "gradient_norm", "rows")}
        for line in lines
        for cell in line.get("columns", ())
    ]


def thinned(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The rows at `most` of their numbers of examples, evenly spread, the last among them."""
    there = sorted({row["examples"] for row in rows})
    count = min(most, len(there))
    kept = {there[round(i * (len(there) - 1) / max(1, count - 1))] for i in range(count)}
    return [row for row in rows if row["examples"] in kept]


def swap(subject: Subject) -> Found:
    """What each answer loses when one digit of an operand is another one."""
    task = multiplied(subject)
    device = subject.inputs.tokens.device
    replaced = {
        name: torch.from_numpy(tokens.astype("int64")).to(device)
        for name, tokens in exchanged_digits(subject.batch, task.config).items()
    }
    rows = counterfactual_attribution(subject.model, subject.inputs, replaced, subject.loops)
    first = subject.batch.targets.shape[1] - task.config.product_digits
    rows = [row | {"digit": answered(row["column"] - first)} for row in rows if row["column"] >= first]
    note = (
        "Logit of the model's answer less that after the digit is replaced by a random other one, earlier digits of "
        "the product kept; mean over the rows."
    )
    return rows, View("Digits that answers depend on", note, "input", "digit", "effect", signed=True)


def tree_of(subject: Subject) -> AttentionTree:
    """Mean patterns of the subject's model and their strong edges."""
    multiplied(subject)
    return attention_tree(subject.model, subject.inputs, subject.loops)


def tree(subject: Subject) -> Found:
    """Which pairs of digits reach each answer, by strong attention alone."""
    task, found = multiplied(subject), tree_of(subject)
    rows = pair_rows(found, task)
    needed = [row for row in rows if row["needed"]]
    got = sum(row["cached"] for row in needed)
    note = (
        f"1: a column on the way to the answer reads both digits (mean attention above {found.threshold}). Needed: "
        f"pairs with i + j up to the answer's place: {got:.0f} of {len(needed)} are there, and "
        f"{sum(row['cached'] for row in rows) - got:.0f} others."
    )
    return rows, View("Pairs of digits fetched", note, "pair", "digit", "cached")


def pair_rows(found: AttentionTree, task: MultiplicationTask) -> list[dict[str, Any]]:
    """A row for each answer and pair of digits: whether it is needed, and where it is cached on the way."""
    config = task.config
    n, m, total = config.digits, config.b_digits, config.product_digits
    names, columns = column_names_of(found, task)
    rows = []
    for k in range(total):
        cached = found.pairs(columns - total + k, range(n), range(n + 1, n + 1 + m))
        for i in range(n):
            for j in range(m):
                where = cached.get((i, n + 1 + j))
                place = "" if where is None else f"{where_of(found, where[0])} at {names[where[1]]}"
                rows.append(
                    {
                        "digit": answered(k),
                        "pair": f"a{i}·b{j}",
                        "needed": i + j <= k,
                        "cached": float(where is not None),
                    }
                    | {"where": place}
                )
    return rows


def column_names_of(found: AttentionTree, task: MultiplicationTask) -> tuple[list[str], int]:
    """The name of each column that the tree has, and how many there are: a chain that is gone has none."""
    names = column_names(task.config)
    columns = found.patterns.shape[-1]
    missing = len(names) - columns
    prompt = task.config.digits + task.config.b_digits + 2
    return names[:prompt] + names[prompt + missing :], columns


def where_of(found: AttentionTree, stage: int) -> str:
    """A stage in words."""
    site, loop = found.stages[stage]
    return f"block {site.split('.')[1]}" + (f" @{loop}" if any(loop for _, loop in found.stages) else "")


@torch.no_grad()
def head_outputs(
    model: nn.Module, inputs: Inputs, loops: int
) -> dict[tuple[int, int, int], Float[Tensor, "rows columns width"]]:
    """What each (block, loop, head) adds to the stream: its output through its slice of the output matrix, no bias."""
    sites = [f"blocks.{block}.attn.z" for block in range(len(model.blocks))]
    found = {}
    with attention_for(model, sites), record(model, sites) as seen:
        answer_logits(model, inputs, loops)
        for (site, loop), z in ((address, seen[address]) for address in seen):
            block = int(site.split(".")[1])
            weight = model.blocks[block].attn.output.weight
            inside = weight.shape[1] // z.shape[1]
            for head in range(z.shape[1]):
                part = weight[:, head * inside : (head + 1) * inside]
                found[block, loop, head] = z[:, head].float() @ part.T
    return found


def geometry(subject: Subject) -> Found:
    """How far each head's output is a sum of one vector for a digit of a and one for a digit of b."""
    task = multiplied(subject)
    if len(subject.batch) < FEWEST_ROWS:
        raise outside("rows", len(subject.batch), f"at least {FEWEST_ROWS}, for shares of variance on rows held out")
    outputs = head_outputs(subject.model, subject.inputs, subject.loops)
    a, b = digits_as_tensors(subject)
    total, rows = task.config.product_digits, []
    for (block, loop, head), values in outputs.items():
        for k in range(total):
            x = values[:, values.shape[1] - total + k].cpu()
            if float(x.double().var(0).sum()) < 1e-8:
                continue  # the head says the same in every row
            i, j, score = best_pair(x, a, b, task.config.base)
            _, share = principal_components(x)
            at = f"block {block} head {head}" + (f" @{loop}" if subject.loops > 1 else "")
            rows.append(
                {"head": at, "digit": answered(k), "pair": f"a{i}, b{j}"}
                | {"additive": score.additive, "joint": score.joint, "a alone": score.first, "b alone": score.second}
                | {"three PCs": float(share.sum()), "rows": len(x)}
            )
    if not rows:
        raise AlgoprobeError("no head's output differs from row to row")
    note = (
        "Held-out share of a head output's variance that f(a_i) + g(b_j) explains (Minkowski score), of the pair of "
        "digits that explains most."
    )
    return rows, View("Sums of two digits in heads", note, "head", "digit", "additive")


def digits_as_tensors(subject: Subject) -> tuple[Int[Tensor, "rows N"], Int[Tensor, "rows M"]]:
    """The digits of both operands."""
    source = subject.batch.source
    return tuple(torch.from_numpy(part.astype("int64")) for part in (source.a, source.b))


def fourier(subject: Subject) -> Found:
    """How well a few waves over the digits fit embeddings, weights and late states."""
    task = multiplied(subject)
    base = task.config.base
    few, all_ = paper_frequencies(base), list(range(base // 2 + 1))
    rows = []
    for name, matrix in fourier_matrices(subject).items():
        for frequencies in (few, all_) if few != all_ else (all_,):
            fit = fourier_fit(matrix, frequencies)
            rows.append({"matrix": name} | fit | {"waves": ",".join(map(str, fit["frequencies"]))})
    note = (
        f"R² of waves over the {base} digits, median over a matrix's rows; chance: expected of random rows. With "
        f"{base} functions every row fits, which says nothing."
    )
    columns = ("matrix", "waves", "functions", "median", "chance", "rows")
    return rows, View("Waves over digits", note, "matrix", "waves", "median", columns)


@torch.no_grad()
def fourier_matrices(subject: Subject) -> dict[str, Float[Tensor, "rows base"]]:
    """Rows with one number a digit: embedding channels, feed-forward read-outs, and the products of final states with
    the digits' unembeddings, at the step that answers the middle digit below the largest sum.
    """
    model, task = subject.model, multiplied(subject)
    base, total = task.config.base, task.config.product_digits
    embedding = model.embed.table(0)[1 : base + 1].double()  # [base, width]
    out = model.blocks[-1].mlp.output.weight.double()
    unembedding = model.unembed.weight[1 : base + 1].double()
    k = middle_digit(task)
    with record(model, ["final"]) as seen:
        answer_logits(model, subject.inputs, subject.loops)
        final = seen["final", 0][:, k - total].double()
    return {
        "embeddings": embedding.T.cpu(),
        "feed-forward out × unembed": (unembedding @ out).T.cpu(),
        f"final state →{answered(k)} × unembed": (final @ unembedding.T).cpu(),
    }


def middle_digit(task: MultiplicationTask) -> int:
    """The digit whose step geometry looks at: c_2 of 4 × 4 (the paper's), half of a's digits in general."""
    return task.config.digits // 2
