"""Synthetic run folders with the shape of real ones; their numbers mean nothing."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from algoprobe.core.config import digest

LAYERED = [[0, 1], [0, 4], [1, 2], [2, 3], [4, 5], [5, 6], [7, 0], [3, 8]]


def histogram(low: int, weights: list[int]) -> dict[str, list[int]]:
    return {"values": list(range(low, low + len(weights))), "counts": weights}


def as_mapping(low: int, weights: list[int]) -> dict[str, int]:
    return {str(low + i): weight for i, weight in enumerate(weights)}


def config(distribution: str = "balanced", seed: int = 0, preset: str | None = None) -> dict[str, Any]:
    return {
        "preset": preset or f"search-demo-{distribution}",
        "digest": digest([distribution, seed, preset]),
        "experiment": {
            "task": {"kind": "search", "n": 65, "distribution": distribution, "encoding": "packed", "lookahead": None},
            "model": {"kind": "looped", "width": 64, "heads": 1, "layers": 1, "loops": {"low": 6, "high": 14}},
            "train": {"batch": 128, "learning_rate": 0.001, "optimiser": {"kind": "adamw", "weight_decay": 0.1}},
            "seeds": {"data": seed, "init": seed, "train": seed},
        },
    }


def cell(axis: str, value: int | None, distribution: str, accuracy: float, chance: float, shortcut: float, **more: Any):
    half = 1.96 * math.sqrt(max(accuracy * (1 - accuracy), 0.0005) / 1000)
    return {
        "axis": axis, "value": value, "distribution": distribution, "accuracy": round(accuracy, 4),
        "low": round(max(0.0, accuracy - half), 4), "high": round(min(1.0, accuracy + half), 4), "chance": chance,
        "shortcut": shortcut, "shortcut_name": "deepest_subtree", "rows": 1000, "loops": 12, "seeds": 1,
    } | more  # fmt: skip


def cells(skill: float, lookaheads: range = range(1, 10)) -> list[dict[str, Any]]:
    made = []
    for value in lookaheads:
        chance = round(0.16 + 0.034 * value, 3)
        made.append(
            cell("lookahead", value, "balanced", chance + (0.99 - chance) * skill ** (value / 2), chance, chance + 0.04)
        )
    made.append(cell("naive", None, "naive", 0.5 + 0.45 * skill, 0.51, 0.78))
    made += [cell("lookahead", value, "star", 0.4 + 0.6 * skill, 0.33, 0.34) for value in (3, 6)]
    return made


def record(status: str = "finished", **more: Any) -> dict[str, Any]:
    return {
        "command": "algoprobe train search-demo-balanced",
        "git": {"revision": "0123abcd", "diff": None},
        "versions": {"python": "3.11.9", "torch": "2.13.0"},
        "machine": {"class": "AMD EPYC, 2 cores, avx512_bf16"},
        "precision": {"dtype": "bfloat16", "attention": "explicit"},
        "parameters": 56321, "loops": 12, "status": status, "examples": 457000, "cpu_seconds": 301.2,
        "wall_seconds": 310.0,
        "card": {
            "config": {"kind": "search", "n": 65},
            "rows": 10000,
            "histograms": {
                "lookahead": histogram(0, [1003, 998, 1010, 990, 1001, 1000, 997, 1003, 999, 999]),
                "edges": as_mapping(9, [40, 90, 200, 400, 800, 1100, 1300, 1500, 1450, 1300, 1000, 820]),
                "right_answers": histogram(1, [9630, 331, 30, 9]),
            },
            "baselines": {"chance": 0.41, "deepest_subtree": 0.27},
        },
        "leaks": {
            "config": "00ff", "seed": 0, "training_rows": 10000, "reserved_rows": 12000, "draws": 21907,
            "draws_dropped_as_test_rows": 3, "equal": 0, "equal_up_to_edge_order": 0, "equal_up_to_renaming": 412,
            "share_up_to_renaming": 0.0412, "renaming_by_vertices": {"9": [120, 80], "20": [900, 0]},
            "renaming_confirmed": {"checked": 50, "isomorphic": 50}, "certificate_microseconds_per_row": 3.2,
            "test_rows_by_cell": [{"cell": "naive", "rows": 1000}],
        },
    } | more  # fmt: skip


def metrics(speed: float = 1.0, steps: int = 3600, seed: int = 0) -> list[dict[str, Any]]:
    draw, lines = random.Random(seed), []
    for step in range(20, steps + 1, 20):
        stage = min(10, 1 + int(speed * step / 300))
        recent = (speed * step / 300) % 1 if stage < 10 else 1.0
        loss = 0.15 + 0.5 * (1 - recent) + 2.4 * math.exp(-speed * step / 200) + abs(draw.gauss(0, 0.03))
        lines.append(
            {"step": step, "examples": step * 128, "loss": loss, "accuracy": min(1.0, math.exp(-0.6 * loss)),
             "learning_rate": 0.001, "gradient_norm": 0.7, "stage": stage, "loops": draw.randint(6, 14),
             "rate": 1500.0, "seconds": step / 12}
        )  # fmt: skip
        if step % 300 == 0:
            checked = [
                {"axis": "lookahead", "value": value, "distribution": "balanced", "rows": 200,
                 "accuracy": round(0.3 + 0.68 / (1 + math.exp(-(stage - value - 0.5) * 2)), 3)}
                for value in range(1, 10)
            ]  # fmt: skip
            naive = {"axis": "naive", "value": None, "distribution": "naive", "accuracy": 0.8, "rows": 200}
            lines.append({"step": step, "examples": step * 128, "validation": [*checked, naive]})
    return lines


def examples() -> list[dict[str, Any]]:
    made = []
    for index, (value, answer) in enumerate([(3, 1), (3, 4), (5, 1), (7, 4), (8, 1), (9, 1), (2, 1)]):
        made.append(
            {"distribution": "balanced", "axis": "lookahead", "value": value, "edges": LAYERED, "start": 0, "goal": 3,
             "answer": answer, "accepted": [1], "correct": answer == 1, "index": index}
        )  # fmt: skip
    return made


def make(
    root: Path, distribution: str = "balanced", seed: int = 0, skill: float = 0.95, steps: int = 3600, **more: Any
) -> Path:
    """A finished run below `root`; a keyword names a file's content, or None to leave the file out."""
    settings = config(distribution, seed)
    sweep = [
        cell("lookahead", v, "balanced", 0.3 + 0.69 / (1 + math.exp(v - loops)), 0.16 + 0.034 * v, 0.2, loops=loops)
        for loops in (2, 4, 6, 8, 10, 14, 18, 24)
        for v in (1, 3, 5, 7, 9)
    ]
    content = {
        "config": settings,
        "record": record(),
        "metrics": metrics(skill + 0.2, steps, seed),
        "evaluation": {"model": "model.safetensors", "cells": cells(skill), "sweep": sweep},
        "examples": examples(),
    } | more
    folder = root / settings["preset"] / settings["digest"]
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in content.items():
        if value is None:
            continue
        if name == "metrics":
            (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in value))
        else:
            (folder / f"{name}.json").write_text(json.dumps(value))
    return folder
