"""Every test is a shape test: annotated functions are checked through jaxtyping and beartype."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings
from jaxtyping import install_import_hook

import tests.typecheck  # noqa: F401  the hook looks the checker up by name

SOURCE = Path(__file__).parents[1] / "src"


def checkable_modules() -> list[str]:
    """All modules but those with compiled kernels: a kernel's compiler must see the plain function."""
    names = []
    for path in sorted((SOURCE / "algoprobe").rglob("*.py")):
        if "njit" not in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            names.append(name.removesuffix(".__init__"))
    # A package's name covers what is below it, kernels included, so only leaves are named.
    return [name for name in names if not any(other.startswith(name + ".") for other in names)]


install_import_hook(checkable_modules(), "tests.typecheck.check")

# A first call may compile a kernel, so no example has a time limit; examples are the same in every run.
settings.register_profile("algoprobe", deadline=None, derandomize=True)
settings.load_profile("algoprobe")
