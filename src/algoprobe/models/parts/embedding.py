"""From token ids to the residual stream."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from algoprobe.core.sizes import Sizes

from ..config import TransformerConfig
from .taps import Tap


class Embedding(nn.Module):
    """Token channels, spare channels at zero, then position channels (one-hot) or a position added (learned).

    Every field of a token has its own table: the two ends of a packed edge are told apart by the table that holds them.
    With `names` the row of a field's table for the id of name v in role r is M[field, r] E[v] (the id 0: zero), so that
    what is learned about matching one name with itself, in whatever fields and roles, holds for all of them.
    """

    def __init__(self, config: TransformerConfig, sizes: Sizes) -> None:
        super().__init__()
        self.config, self.sizes = config, sizes
        self.width = config.model_width(sizes)
        part = config.width // sizes.fields if config.combine == "concatenate" else config.width
        if config.embedding == "names":
            roles = (sizes.vocabulary - 1) // sizes.names
            self.names = nn.Embedding(sizes.names, config.width)
            nn.init.normal_(self.names.weight, std=config.embedding_scale)
            self.roles = nn.ModuleList(nn.Linear(config.width, part, bias=False) for _ in range(sizes.fields * roles))
            for role in self.roles:
                nn.init.orthogonal_(role.weight)
            if config.recurrence != "residual":
                self.said = nn.Linear(config.width, self.width, bias=False)
                nn.init.orthogonal_(self.said.weight)
            if config.output == "tied":
                self.answer = nn.Linear(self.width, config.width, bias=False)
        if config.embedding == "learned":
            self.tables = nn.ModuleList(nn.Embedding(sizes.vocabulary, part) for _ in range(sizes.fields))
            for table in self.tables:
                nn.init.normal_(table.weight, std=config.embedding_scale)
        if config.position == "learned":
            self.position = nn.Embedding(sizes.length, self.width)
            nn.init.normal_(self.position.weight, std=config.embedding_scale)
        self.token, self.pos = Tap(), Tap()

    def table(self, field: int) -> Float[Tensor, "vocabulary part"]:
        """The embedding of every id in one field of a token; not for one-hot tokens."""
        if self.config.embedding == "learned":
            return self.tables[field].weight
        names = self.names.weight
        each = len(self.roles) // self.sizes.fields
        rows = [role(names) for role in self.roles[field * each : (field + 1) * each]]
        return torch.cat([rows[0].new_zeros(1, rows[0].shape[1]), *rows])

    def positions(self, columns: int, device: torch.device) -> Int[Tensor, "{columns}"]:
        """Where each column stands in a row of full length: rows are aligned, so shorter ones keep their places."""
        first = self.sizes.length - columns if self.sizes.align == "right" else 0
        return torch.arange(first, first + columns, device=device)

    def forward(
        self, tokens: Int[Tensor, "batch columns fields"], dtype: torch.dtype
    ) -> Float[Tensor, "batch columns width"]:
        config, sizes = self.config, self.sizes
        position = self.positions(tokens.shape[1], tokens.device)
        if config.embedding == "one-hot":
            x = F.one_hot(tokens, sizes.vocabulary).flatten(2).to(dtype)
        else:
            parts = [F.embedding(tokens[..., field], self.table(field)) for field in range(sizes.fields)]
            x = torch.cat(parts, dim=-1) if config.combine == "concatenate" else torch.stack(parts).sum(0)
        x = self.token(x)
        channels = [x]
        if config.spare:
            channels.append(x.new_zeros(*x.shape[:2], config.spare))
        if config.position == "one-hot":
            one_hot = F.one_hot(position, sizes.length).to(x.dtype)
            channels.append(self.pos(one_hot.expand(len(x), -1, -1)))
        x = torch.cat(channels, dim=-1) if len(channels) > 1 else x
        if config.position == "learned":
            x = x + self.pos(self.position(position))
        return x

    def part(self, token: Int[Tensor, "fields"], field: int) -> Float[Tensor, "width"]:
        """What one field of a token adds to the residual stream."""
        config, sizes = self.config, self.sizes
        x = torch.zeros(self.width, device=token.device)
        if config.embedding == "one-hot":
            x[field * sizes.vocabulary + token[field]] = 1.0
        elif config.combine == "concatenate":
            part = config.width // sizes.fields
            x[field * part : (field + 1) * part] = self.table(field)[token[field]]
        else:
            x[: config.width] = self.table(field)[token[field]]
        return x

    def expected(self, weights: Float[Tensor, "*batch columns outputs"]) -> Float[Tensor, "*batch columns width"]:
        """Σ_v weights_v E_v: the mean token embedding under `weights`, for tokens of one field.

        With `names` the mean over names, class 0 being none, times a matrix of its own.
        """
        if self.config.embedding == "names":
            return self.said(weights[..., 1:].to(self.names.weight.dtype) @ self.names.weight)
        x = weights if self.config.embedding == "one-hot" else weights @ self.table(0)
        return F.pad(x, (0, self.width - x.shape[-1]))

    def logits(self, x: Float[Tensor, "*batch rows width"]) -> Float[Tensor, "*batch rows vocabulary"]:
        """Products with the token embedding (`output = "tied"`); one-hot tokens make them the first channels.

        With `names` the products with every name of A x, A an output matrix; class 0 names nothing and has 0.
        """
        if self.config.embedding == "one-hot":
            return x[..., : self.sizes.vocabulary]
        if self.config.embedding == "names":
            return F.pad(self.answer(x) @ self.names.weight.T, (1, 0))
        return x[..., : self.config.width] @ self.table(0).T
