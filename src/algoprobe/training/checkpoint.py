"""Saving and loading weights and training state; nothing half-written or damaged is ever loaded."""

from __future__ import annotations

import hashlib
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from algoprobe.core.errors import AlgoprobeError
from algoprobe.core.files import write_atomically


def tensors_digest(tensors: dict[str, Tensor]) -> str:
    """A digest of names, shapes and bits of `tensors`."""
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        state.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        state.update(tensor.view(torch.uint8).numpy().tobytes() if tensor.ndim else tensor.numpy().tobytes())
    return state.hexdigest()


def save_weights(path: Path, model: nn.Module, **about: object) -> None:
    """The model's weights as safetensors, with a digest of them in the file's own metadata."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    metadata = {name: str(value) for name, value in about.items()} | {"digest": tensors_digest(tensors)}
    write_atomically(path, lambda temporary: save_file(tensors, temporary, metadata))


def load_weights(path: Path, model: nn.Module) -> nn.Module:
    """Fill `model` from `path`, in float32 whatever the file's precision.

    Raises `AlgoprobeError` when the file is missing, damaged, or of another shape.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            digest = (file.metadata() or {}).get("digest")
    except FileNotFoundError as error:
        raise AlgoprobeError(f"{path} is not there: the run has no checkpoint yet") from error
    except (SafetensorError, OSError) as error:
        raise AlgoprobeError(f"{path} is damaged: {error}") from error
    if digest is not None and digest != tensors_digest(tensors):
        raise AlgoprobeError(f"{path} is damaged: its weights do not match their digest")
    try:
        model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    except RuntimeError as error:
        raise AlgoprobeError(f"{path} does not fit the model in config.json: {error}") from error
    return model


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Training state (tensors, numbers, strings, lists, dicts), atomically."""
    write_atomically(path, lambda temporary: torch.save(state, temporary))


def load_state(path: Path) -> dict[str, Any]:
    """The training state in `path`. Raises `AlgoprobeError` when it is damaged."""
    try:
        # The archive's own checksums; `torch.load` does not look at them.
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        if broken is None:
            return torch.load(path, weights_only=True, map_location="cpu")
        reason = f"bad checksum of {broken}"
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, pickle.UnpicklingError, ValueError) as error:
        reason = str(error)
    raise AlgoprobeError(
        f"{path} is damaged ({reason}); delete it to train again from the start, or put a good copy in its place"
    )
