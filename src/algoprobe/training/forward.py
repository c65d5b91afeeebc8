"""From a batch of arrays to logits: device, dtype, padding, chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from algoprobe.core.machine import resolve_device, resolve_precision
from algoprobe.tasks.batch import IGNORE, Batch

from .config import TrainConfig


@dataclass(frozen=True)
class Arithmetic:
    """Where and in which numbers a model computes."""

    device: torch.device
    dtype: str
    attention: str

    @classmethod
    def resolve(
        cls, config: TrainConfig, recorded: dict[str, str] | None = None, device: str | None = None
    ) -> Arithmetic:
        """What `config` asks for on this machine; a run that has a record keeps its dtype and path."""
        device = resolve_device(device or config.device)
        recorded = recorded if isinstance(recorded, dict) else {}
        dtype, attention = resolve_precision(
            recorded.get("dtype", config.precision), recorded.get("attention", config.attention), device
        )
        return cls(device, dtype, attention)

    def place(self, model: nn.Module) -> nn.Module:
        """`model` on the device, on the chosen attention path."""
        return model.use_attention(self.attention).to(self.device)

    def autocast(self) -> torch.autocast:
        """The context that matrix products run in."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.dtype == "bfloat16")


@dataclass(frozen=True)
class Tensors:
    """The part of a batch that a training step needs, on the device."""

    tokens: Tensor
    lengths: Tensor
    targets: Tensor
    rows: np.ndarray


def trim(tokens: np.ndarray, lengths: np.ndarray, align: str) -> np.ndarray:
    """`tokens` without the columns that are padding in every row."""
    widest = int(lengths.max())
    return tokens[:, tokens.shape[1] - widest :] if align == "right" else tokens[:, :widest]


def chunks(batch: Batch, align: str, parts: int, device: torch.device) -> Iterator[Tensors]:
    """`batch` in `parts` pieces of neighbouring lengths, each trimmed to its own longest row."""
    rows = np.arange(len(batch))
    pieces = np.array_split(np.argsort(batch.lengths, kind="stable"), parts) if parts > 1 else [rows]
    for piece in pieces:
        whole = len(piece) == len(batch)
        lengths = batch.lengths if whole else batch.lengths[piece]
        tokens = trim(batch.tokens if whole else batch.tokens[piece], lengths, align)
        targets = batch.targets if whole else batch.targets[piece]
        yield Tensors(
            torch.from_numpy(tokens.astype(np.int64)).to(device),
            torch.from_numpy(lengths.astype(np.int64)).to(device),
            torch.from_numpy(targets.astype(np.int64)).to(device),
            piece,
        )


def answers(
    model: nn.Module, batch: Batch, arithmetic: Arithmetic, loops: int | None = None, rows: int = 128
) -> np.ndarray:
    """The class with the largest logit at every read column, `[batch, read]`, computed `rows` at a time (in cache)."""
    return answers_after(model, batch, arithmetic, [loops], rows)[0]


@torch.inference_mode()
def answers_after(
    model: nn.Module, batch: Batch, arithmetic: Arithmetic, counts: Sequence[int | None], rows: int = 128
) -> np.ndarray:
    """The answers after each number of loops in `counts`, `[counts, batch, read]`, all from one pass.

    Each loop's logits are dropped when its answers are taken: memory does not grow with the number of loops. Rows that
    are to be `decoded` take a pass for each column and number of loops.
    """
    if batch.decoded:
        return np.stack([decoded(model, batch, arithmetic, count, rows) for count in counts])
    read = batch.targets.shape[1]
    wanted = [model.config.loops if count is None else count for count in counts]
    found = np.empty((len(counts), len(batch), read), np.int64)
    parts, last = max(1, -(-len(batch) // rows)), max(wanted)
    with arithmetic.autocast():
        for piece in chunks(batch, model.sizes.align, parts, arithmetic.device):
            state = model.begin(piece.tokens, piece.lengths)
            for loop in range(1, last + 1):
                state = model.advance(state, read if loop == last else None)
                if loop in wanted:
                    answer = model.answer(state, read).argmax(-1).cpu().numpy()
                    for place in (place for place, count in enumerate(wanted) if count == loop):
                        found[place, piece.rows] = answer
    return found


def decoded(model: nn.Module, batch: Batch, arithmetic: Arithmetic, loops: int | None, rows: int) -> np.ndarray:
    """The answers at every read column, `[batch, read]`, each but the first given to the model's own earlier ones.

    Greedy decoding: the class with the largest logit is the next column's token (its first field).
    """
    read = batch.targets.shape[1]
    found = np.empty((len(batch), read), np.int64)
    with arithmetic.autocast():
        for piece in chunks(batch, model.sizes.align, max(1, -(-len(batch) // rows)), arithmetic.device):
            first = piece.tokens.shape[1] - read
            for k in range(read):
                shown = first + k + 1
                lengths = (piece.lengths - (read - 1 - k)).clamp_min(1)
                answer = model(piece.tokens[:, :shown], lengths, read=1, loops=loops)[:, 0].argmax(-1)
                found[piece.rows, k] = answer.cpu().numpy()
                if k < read - 1:
                    given = piece.targets[:, k] == IGNORE  # a shorter row's prompt reaches into the read columns
                    piece.tokens[:, shown, 0] = torch.where(given, piece.tokens[:, shown, 0], answer)
    return found
