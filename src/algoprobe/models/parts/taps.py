"""Named sites. A tap hands its input on; hooks of any library attach to it as to any other submodule."""

from __future__ import annotations

from torch import nn


class Tap(nn.Identity):
    """A site worth reading or editing. Its name in `named_modules()` is its address, as in `blocks.3.attn.pattern`."""
