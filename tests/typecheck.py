"""The checker that annotated functions run under in tests: beartype, with a whole number passing for a float."""

from __future__ import annotations

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
