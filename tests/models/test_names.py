"""Names: one vector a name in whatever role it stands, so that models do not care what a vertex is called."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from algoprobe.core.errors import UsageError
from algoprobe.core.sizes import Sizes
from algoprobe.models.config import TransformerConfig
from algoprobe.tasks.search import SearchConfig, SearchTask

NAMES = {"embedding": "names", "width": 16, "heads": 2, "layers": 1, "norm": "rms", "bias": False}
TASK = SearchTask(SearchConfig(n=26, encoding="packed", test_rows=10))


def model(**fields):
    return TransformerConfig(**NAMES | {"loops": 3, "output": "tied"} | fields).build(TASK.sizes)


@pytest.mark.parametrize("combine", ["sum", "concatenate"])
def test_an_edge_is_the_matrix_of_each_end_times_its_name(combine):
    built = model(combine=combine)
    vertices, names, roles = TASK.sizes.names, built.embed.names.weight, built.embed.roles
    tokens = torch.tensor([[[0, 0], [3, 5], [vertices + 2, vertices + 7]]])
    found = built.embed(tokens, torch.float32)[0]
    join = (lambda a, b: a + b) if combine == "sum" else (lambda a, b: torch.cat([a, b]))
    torch.testing.assert_close(found[0], torch.zeros(16))
    torch.testing.assert_close(found[1], join(roles[0].weight @ names[2], roles[2].weight @ names[4]))
    torch.testing.assert_close(found[2], join(roles[1].weight @ names[1], roles[3].weight @ names[6]))
    torch.testing.assert_close(
        built.embed.part(tokens[0, 1], 0) + built.embed.part(tokens[0, 1], 1), found[1], msg="the parts are the whole"
    )


def test_renaming_vertices_and_vectors_renames_the_answer():
    built, vertices = model(zero_init=False), TASK.sizes.names
    batch = TASK.sample("train", 0, np.arange(20))
    tokens, lengths = torch.from_numpy(batch.tokens.astype(np.int64)), torch.from_numpy(batch.lengths)
    before = built(tokens, lengths, read=1)
    shuffled = torch.randperm(vertices, generator=torch.Generator().manual_seed(0)) + 1  # old name - 1 → new name
    ids = torch.cat([torch.zeros(1, dtype=torch.long), shuffled, shuffled + vertices])
    with torch.no_grad():
        built.embed.names.weight[shuffled - 1] = built.embed.names.weight.clone()
    after = built(ids[tokens], lengths, read=1)
    torch.testing.assert_close(after[..., ids[: vertices + 1]], before, atol=1e-5, rtol=1e-4)
    assert before.std() > 0.01


def test_names_can_have_an_output_of_their_own():
    built = model(output="linear")
    assert built.unembed.weight.shape == (TASK.sizes.outputs, 16) and not hasattr(built.embed, "answer")


@pytest.mark.parametrize("recurrence", ["embedding", "reset"])
def test_the_embedding_channel_says_names(recurrence):
    built = model(recurrence=recurrence, inject=True)
    certain = torch.full((1, 1, TASK.sizes.outputs), -1e9)
    certain[..., 3] = 0.0
    said = built.channel(certain, built.embed)[0, 0]
    wanted = built.embed.said.weight @ built.embed.names.weight[2]
    torch.testing.assert_close(said / said.norm(), wanted / wanted.norm())
    nothing = torch.full((1, 1, TASK.sizes.outputs), -1e9)
    nothing[..., 0] = 0.0
    assert built.channel(nothing, built.embed).abs().max() < 1e-3
    batch = TASK.sample("train", 0, np.arange(4))
    tokens, lengths = torch.from_numpy(batch.tokens.astype(np.int64)), torch.from_numpy(batch.lengths)
    assert built(tokens, lengths, read=1, loops=3).isfinite().all()


def test_tokens_without_names_are_refused():
    with pytest.raises(UsageError, match=r"model\.embedding: 'names'"):
        TransformerConfig(**NAMES).build(Sizes(vocabulary=10, length=5, outputs=10))
    with pytest.raises(UsageError, match=r"model\.output: 'tied'.*'names'"):
        TransformerConfig(output="tied", layers=1).build(TASK.sizes)
    with pytest.raises(UsageError, match=r"model\.width"):
        model(width=15, heads=1, combine="concatenate")
