from __future__ import annotations

import torch
from torch.nn import functional as F

from algoprobe.models.parts.norms import EPSILON, RMSNorm


def test_rms_norm_is_pytorchs_in_value_and_gradient():
    torch.manual_seed(0)
    norm = RMSNorm(12)
    torch.nn.init.normal_(norm.weight)
    x, upstream = torch.randn(3, 5, 12, requires_grad=True), torch.randn(3, 5, 12)
    found = torch.autograd.grad(norm(x), (x, norm.weight), upstream)
    plain = F.rms_norm(x, (12,), norm.weight, EPSILON)
    torch.testing.assert_close(norm(x), plain)
    torch.testing.assert_close(found, torch.autograd.grad(plain, (x, norm.weight), upstream), rtol=1e-5, atol=1e-6)


def test_rms_norm_gradient_is_that_of_its_value():
    norm = RMSNorm(6).double()
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: torch.func.functional_call(norm, {"weight": w}, x), (x, norm.weight))
    assert norm(torch.zeros(2, 6).double()).abs().max() == 0
