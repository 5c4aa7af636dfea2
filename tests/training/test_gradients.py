"""Norms of the gradient by thirds of the layers, against torch's own clipping."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Layered(torch.nn.Module):
    def __init__(self, count):
        super().__init__()
        self.embeddings = torch.nn.Embedding(5, 4)
        self.layer = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(count))
        self.unused = torch.nn.Linear(4, 4)

    def forward(self, ids):
        found = self.embeddings(ids)
        for one in self.layer:
            found = one(found).tanh()
        return found


@pytest.mark.parametrize(
    "count, thirds",
    [
        (1, {"middle": [0]}),
        (2, {"bottom": [0], "top": [1]}),
        (6, {"bottom": [0, 1], "middle": [2, 3], "top": [4, 5]}),
        (12, {"bottom": [0, 1, 2, 3], "middle": [4, 5, 6, 7], "top": [8, 9, 10, 11]}),
    ],
)
@pytest.mark.parametrize("most", [0.01, 1e6])
def test_norms_by_thirds_and_clipping_as_torch_does_it(count, thirds, most):
    from mundap.training.gradients import Gradients

    torch.manual_seed(1)
    network = Layered(count)
    network.layer[0].bias.requires_grad = False
    network(torch.arange(5)).square().sum().backward()
    other = copy.deepcopy(network)
    for mine, theirs in zip(network.parameters(), other.parameters(), strict=True):
        if mine.grad is not None:
            theirs.grad = mine.grad.clone()
    expected = {}
    for name, numbers in thirds.items():
        slopes = [one.grad.flatten() for n in numbers for one in other.layer[n].parameters() if one.grad is not None]
        expected[name] = float(torch.cat(slopes).norm())
    expected["all"] = float(torch.nn.utils.clip_grad_norm_(other.parameters(), most))
    assert Gradients(network).clip(most) == pytest.approx(expected, rel=1e-5)
    for mine, theirs in zip(network.parameters(), other.parameters(), strict=True):
        assert (mine.grad is None) == (theirs.grad is None)
        if mine.grad is not None:
            torch.testing.assert_close(mine.grad, theirs.grad)
