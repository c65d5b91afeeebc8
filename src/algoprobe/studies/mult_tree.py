"""Who fetches which digit: reads by strong attention, and the answers that break when a column no longer reads one.

By attention alone (weights above 0.1, arXiv 2510.00184, §3) a looped model whose columns read the prompt both ways
fetches nearly everything everywhere, whether it solves the task or not. So every read is also cut: in all heads, blocks
and loops at once, since what one head no longer reads another may.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .comparison import finish, verdicts_of
from .mult_open import as_matrix, head, models, opened, over_seeds
from .registry import StudyOptions, study

if TYPE_CHECKING:
    from algoprobe.probes.attention_tree import AttentionTree

    from .lens_kinds import Subject

VITAL = 0.05
"""Accuracy lost from which on a read counts as one that an answer needs."""


@study("mult-tree")
def tree(options: StudyOptions) -> dict[str, Any]:
    """Which columns read which digits by strong attention, and which answers break when they no longer do."""
    from algoprobe.report.digits import attention_tree_chart
    from algoprobe.report.lenses import heat_map, matrix_table
    from algoprobe.report.loops import rows_table

    from .digit_lenses import where_of

    jobs = models(options)
    rows, reads, charts, tables, found = {}, {}, {}, [], []
    for row, of_row in jobs.items():
        by_run = {job.folder.path: tree_reads(opened(job, "tree")) for job in of_row}
        seen = list(by_run.values())
        rows[row] = cells = over_seeds(
            of_row, lambda job, by_run=by_run: needed(by_run[job.folder.path]), ("input", "answer"), ("lost",)
        )
        reads[row] = [one.reads for one in seen]
        title = f"{row}: accuracy of an answer lost with its best reader of a digit"
        note = "The column that costs most when it no longer reads the digit, in any head or loop; mean over seeds."
        charts[f"reads-{row}"] = heat_map(cells, "input", "answer", "lost", title, note)
        tables.append(matrix_table(*as_matrix(cells, "input", "answer", "lost"), title, "digit"))
        first, k = seen[0], seen[0].middle
        vital = {(line["query"], line["key"]) for line in first.reads if line["lost"][k] >= VITAL}
        shown = [vars(edge) for edge in first.tree.edges if (edge.query, edge.key) in vital]
        if shown:
            title = f"{row}: what c{k} cannot do without"
            note = f"Reads that cost c{k} {VITAL} of its accuracy or more, where mean attention is above 0.1; seed 0."
            stages = [where_of(first.tree, s) for s in range(len(first.tree.stages))]
            charts[f"tree-{row}"] = attention_tree_chart(shown, first.names, stages, title, note)
        worst = sorted(first.reads, key=lambda line: -line["lost"][k])[:8]
        lines = [
            {"read": line["read"], "at": line["at"], "own": line["lost"][k], "others": other_loss(line["lost"], k)}
            for line in worst
        ]
        columns = (("read", "read"), ("at", "in"), ("own", f"c{k} loses"), ("others", "the most that another loses"))
        tables.append(rows_table(lines, columns, f"{row}: reads that c{k} needs most (seed 0)", words=2))
        share = [sum(line["lost"] >= VITAL for line in of_middle(needed(one), k)) for one in seen]
        low, high = (0.0, 1.0) if row == "plain" else (2.0 * (k + 1) - 1, 2.0 * (k + 1))
        what = f"c{k}: digits of {2 * (k + 1)} that it is seen to need"
        found.append((row, what, "–" if row == "plain" else "all", low, high, sum(share) / len(share), len(share)))
    results = head("mult-tree", options, jobs) | {"rows": rows, "reads": reads, "verdicts": verdicts_of(found)}
    finish(options.out / "mult-tree", results, tables, charts, options)
    return results


@dataclass(frozen=True)
class Reads:
    """Strong attention of one model, and what each pair of a reading and a read column is worth to each answer."""

    tree: AttentionTree
    names: list[str]
    middle: int
    """The digit of the product that the most digit products add up to."""
    reads: list[dict[str, Any]]
    """`query`, `key`, in words `read` and `at`, and `lost`: accuracy of each digit of the product."""


def tree_reads(subject: Subject) -> Reads:
    """Every read by strong attention, cut in all heads, blocks and loops at once."""
    from algoprobe.probes.attention_tree import knock_out

    from .digit_lenses import column_names_of, tree_of, where_of

    seen = tree_of(subject)
    names, _ = column_names_of(seen, subject.task)
    config = subject.task.config
    groups: dict[tuple[int, int], list[Any]] = {}
    for edge in seen.edges:
        groups.setdefault((edge.query, edge.key), []).append(edge)
    lost = knock_out(subject.model, subject.inputs, list(groups.values()), subject.loops)[:, -config.product_digits :]
    reads = []
    for (query, key), edges, of_digit in zip(groups, groups.values(), lost.tolist()):
        heads: dict[str, list[int]] = {}
        for edge in edges:
            heads.setdefault(where_of(seen, edge.stage), []).append(edge.head)
        at = "; ".join(f"{stage} heads {','.join(map(str, of))}" for stage, of in heads.items())
        line = {"query": query, "key": key, "read": f"{names[query]} reads {names[key]}", "at": at}
        reads.append(line | {"lost": of_digit})
    return Reads(seen, names, min(config.digits, config.b_digits) - 1, reads)


def needed(seen: Reads) -> list[dict[str, Any]]:
    """For each digit of an operand and each answer the accuracy lost with the read of it that costs most."""
    inputs = [name for name in seen.names if name[0] in "ab" and name[1:].isdigit()]
    found = []
    for name in inputs:
        of_input = [line["lost"] for line in seen.reads if seen.names[line["key"]] == name]
        for k in range(len(seen.reads[0]["lost"]) if seen.reads else 0):
            found.append({"input": name, "answer": f"c{k}", "lost": max((lost[k] for lost in of_input), default=0.0)})
    return found


def of_middle(cells: list[dict[str, Any]], k: int) -> list[dict[str, Any]]:
    """What c_k loses, digit by digit of those that it depends on."""
    return [cell for cell in cells if cell["answer"] == f"c{k}" and int(cell["input"][1:]) <= k]


def other_loss(lost: list[float], k: int) -> str:
    """The other answer that loses most, in words."""
    worst = max((j for j in range(len(lost)) if j != k), key=lambda j: lost[j])
    return f"c{worst} {lost[worst]:.2f}"
