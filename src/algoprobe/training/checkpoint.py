"""Saving and loading weights and training state; nothing half-written or damaged is ever loaded."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from algoprobe.core.errors import AlgoprobeError
from algoprobe.core.files import write_bytes


def tensors_digest(tensors: dict[str, Tensor]) -> str:
    """A digest of names, shapes and bits of `tensors`."""
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        state.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        state.update(tensor.view(torch.uint8).numpy().tobytes() if tensor.ndim else tensor.numpy().tobytes())
    return state.hexdigest()


def save_weights(path: Path, model: nn.Module, config: str) -> None:
    """The model's weights as safetensors; in the file's metadata a digest of them and that of their `config`."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    # One field: safetensors writes several in no fixed order, and equal runs should leave equal files.
    about = json.dumps({"weights": tensors_digest(tensors), "config": config}, sort_keys=True)
    write_bytes(path, safetensors.torch.save(tensors, {"algoprobe": about}))


def load_weights(path: Path, model: nn.Module, config: str) -> None:
    """Fill `model` from `path`, in float32 whatever the file's precision.

    Raises `AlgoprobeError` when the file is missing, damaged, or of another config or shape.
    """
    try:
        data = path.read_bytes()
        tensors = safetensors.torch.load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        about = json.loads(header["__metadata__"]["algoprobe"])
    except FileNotFoundError as error:
        raise AlgoprobeError(f"{path} is not there: the run has no checkpoint yet") from error
    except OSError as error:
        raise AlgoprobeError(f"cannot read {path}: {error.strerror}") from error
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise AlgoprobeError(f"{path} is damaged: {first_line(error)}") from error
    if about.get("weights") != tensors_digest(tensors):
        raise AlgoprobeError(f"{path} is damaged: its weights do not match their digest")
    if about.get("config") != config:
        raise AlgoprobeError(f"{path} belongs to another config (digest {about.get('config')}, not {config})")
    try:
        model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
    except RuntimeError as error:
        raise AlgoprobeError(f"{path} does not fit the model in config.json: {first_line(error)}") from error


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Training state (tensors, numbers, strings, lists, dicts), atomically."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_bytes(path, buffer.getvalue())


def load_state(path: Path, config: str) -> dict[str, Any]:
    """The training state in `path`. Raises `AlgoprobeError` when it is damaged or of another config."""
    try:
        # The archive's own checksums; `torch.load` does not look at them.
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        if broken is not None:
            raise damaged(path, f"bad checksum of {broken}")
        state = torch.load(path, weights_only=True, map_location="cpu")
    except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, pickle.UnpicklingError, ValueError) as error:
        raise damaged(path, first_line(error)) from error
    if not isinstance(state, dict) or "config" not in state:
        raise damaged(path, "it holds no training state")
    if state["config"] != config:
        raise AlgoprobeError(f"{path} belongs to another config (digest {state['config']}, not {config})")
    return state


def damaged(path: Path, reason: str) -> AlgoprobeError:
    """The error for a training state that cannot be used."""
    advice = "delete it to train again from the start, or put a good copy in its place"
    return AlgoprobeError(f"{path} is damaged ({reason}); {advice}")


def first_line(error: Exception) -> str:
    """The first line of an error's text."""
    return str(error).strip().split("\n")[0]
