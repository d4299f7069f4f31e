"""Products of bits: whole numbers exactly, others as float64 has them, and torch's own where they do not apply."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from ebmlab.energies import RBM, Energy
from ebmlab.native import add_product, affine, bit_products
from ebmlab.native.bit_products import kernels
from ebmlab.numerics.affine import affine as plain

pytestmark = pytest.mark.usefixtures("sampling")
needs_kernels = pytest.mark.skipif(kernels() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")
SHAPES = [(48, 784, 500), (257, 64, 257), (500, 257, 33), (1200, 31, 95), (512, 17, 1024), (784, 100, 500)]


def bits(*shape: int) -> Tensor:
    return torch.rand(shape).lt(0.4).float()


def whole(*shape: int) -> Tensor:
    return torch.randint(-9, 10, shape).float()


@needs_kernels
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_whole_numbers_come_out_exactly(shape: tuple[int, int, int], turned: bool, threads: int) -> None:
    torch.manual_seed(0)
    rows, inner, columns = shape
    x = bits(inner, rows).T if turned else bits(rows, inner)
    matrix = whole(columns, inner).T if turned else whole(inner, columns)
    bias, before = whole(columns), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = affine(bias, x, matrix)
        total, only = whole(rows, columns), torch.full((rows, columns), torch.nan)
        expected = total - 2 * (x @ matrix)
        add_product(total, x, matrix, alpha=-2.0)
        add_product(only, x, matrix, overwrite=True)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found, x @ matrix + bias)
    assert torch.equal(total, expected)
    assert torch.equal(only, x @ matrix)


@needs_kernels
def test_the_kernel_is_what_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain product is out of reach: these bits are multiplied without it, views of larger tensors too."""
    monkeypatch.setattr(bit_products, "plain_affine", None)
    x, matrix, bias = bits(100, 900)[:, 50:834], whole(784, 600)[:, 7:507], whole(500)
    assert torch.equal(affine(bias, x, matrix), torch.addmm(bias, x, matrix))


@needs_kernels
@pytest.mark.parametrize("shape", [(48, 1366, 33), (2000, 33, 33), (2000, 8, 300), (47, 784, 500)])
def test_products_that_torch_has_sooner_are_left_to_torch(shape: tuple[int, int, int]) -> None:
    """They took up to 1.6 times as long by the kernels."""
    rows, inner, columns = shape
    x, matrix, bias = bits(rows, inner), torch.randn(inner, columns), torch.randn(columns)
    assert torch.equal(affine(bias, x, matrix), plain(bias, x, matrix))


@needs_kernels
def test_the_kernel_is_what_adds_products() -> None:
    x, matrix, total = bits(100, 784), whole(784, 500), whole(100, 500)
    expected = total - x @ matrix
    with torch.profiler.profile() as seen:
        add_product(total, x, matrix, alpha=-1.0)
    assert torch.equal(total, expected)
    assert not [event.key for event in seen.key_averages() if "mm" in event.key]


@needs_kernels
def test_sums_are_as_close_to_float64_as_torchs() -> None:
    torch.manual_seed(1)
    x, matrix, bias = bits(200, 784), torch.randn(784, 500), torch.randn(500)
    exact = x.double() @ matrix.double() + bias.double()
    ours, theirs = ((product - exact).abs().max() for product in (affine(bias, x, matrix), plain(bias, x, matrix)))
    assert ours < 3 * theirs


@needs_kernels
def test_the_number_of_threads_does_not_matter() -> None:
    """Bit for bit; nor does it in a process that inherits the kernels and has one thread, as those of loaders do."""
    x, matrix, bias, before = bits(600, 784), torch.randn(784, 500), torch.randn(500), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = affine(bias, x, matrix)
        torch.set_num_threads(3)
        assert torch.equal(affine(bias, x, matrix), alone)
        loader = DataLoader(Products(bias, x, matrix), batch_size=None, num_workers=1, timeout=60)
        assert torch.equal(next(iter(loader)), alone)
    finally:
        torch.set_num_threads(before)


class Products(Dataset[Tensor]):
    """One product, made where it is asked for."""

    def __init__(self, *factors: Tensor) -> None:
        self.factors = factors

    def __len__(self) -> int:
        return 1

    @torch.no_grad()
    def __getitem__(self, index: int) -> Tensor:
        bias, x, matrix = self.factors
        return affine(bias, x, matrix)


@needs_kernels
@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_stays(odd: float) -> None:
    """A row with 0 there is no number as well, since 0 times infinity is none. Infinity may become NaN."""
    x, matrix, bias = bits(100, 784), torch.randn(784, 500), torch.zeros(500)
    x[:50, 100], x[50:, 100], matrix[100, 3], bias[7] = 0, 1, odd, odd
    found, expected = affine(bias, x, matrix), plain(bias, x, matrix)
    assert torch.equal(found.isfinite(), expected.isfinite())
    assert found[:, 3].isnan().all()
    x[9, 9] = torch.nan  # this is no bit
    assert affine(bias, x, matrix)[9].isnan().all()


@pytest.mark.parametrize("value", [0.5, 2.0, -1.0, -0.5])
@pytest.mark.parametrize("at", [(0, 0), (99, 783)])
def test_other_rows_are_left_to_torch(value: float, at: tuple[int, int]) -> None:
    x, matrix, bias = bits(100, 784), torch.randn(784, 500), torch.randn(500)
    x[at] = value
    assert torch.equal(affine(bias, x, matrix), plain(bias, x, matrix))
    total, turned = torch.randn(784, 500), torch.randn(100, 500)
    expected = torch.addmm(total, x.T, turned)
    add_product(total, x.T, turned)
    assert torch.equal(total, expected)


def test_what_torch_has_to_see_is_left_to_torch() -> None:
    x, W, bias = bits(100, 784), nn.Parameter(torch.randn(784, 500)), torch.randn(500)
    with torch.enable_grad():
        affine(bias, x, W).sum().backward()
    assert W.grad is not None
    torch.testing.assert_close(W.grad, x.sum(0).unsqueeze(1).expand(-1, 500))
    two = torch.stack([x, 1 - x])
    torch.testing.assert_close(torch.vmap(lambda one: affine(bias, one, W))(two), two @ W + bias)
    with torch.autocast("cpu", torch.bfloat16):
        assert affine(bias, x, W).dtype == torch.bfloat16
    assert affine(bias.double(), x.double(), W.double()).dtype == torch.float64
    assert affine(bias.to("meta"), x.to("meta"), W.to("meta")).is_meta


@needs_kernels
def test_shapes_that_do_not_fit_are_torchs_errors() -> None:
    """The kernels would read and write beyond them."""
    x, W, bias = bits(100, 784), torch.randn(784, 500), torch.randn(500)
    for wrong in [(bias, x[:, :700], W), (bias[:400], x, W), (bias, x, W[:, 0])]:
        with pytest.raises(RuntimeError):
            affine(*wrong)
    for out in [torch.zeros(100, 400), torch.zeros(90, 500), torch.zeros(1, 500).expand(100, 500)]:
        with pytest.raises(RuntimeError):
            add_product(out, x, W)
    for start in [torch.randn(100, 1), torch.randn(1, 500), torch.randn(1), torch.tensor(2.0)]:
        torch.testing.assert_close(affine(start, x, W), plain(start, x, W), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(affine(bias, x.to_sparse(), W), plain(bias, x, W), rtol=1e-4, atol=1e-4)


@needs_kernels
def test_defaults_of_torch_do_not_reach_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its default device nor its default type, in the first product or later."""
    x, W, bias = bits(100, 784), whole(784, 500), whole(500)
    expected = plain(bias, x, W)
    monkeypatch.setattr(bit_products, "plain_affine", None)
    kernels.cache_clear()
    with torch.device("meta"):
        assert torch.equal(affine(bias, x, W), expected)
    kernels.cache_clear()
    torch.set_default_dtype(torch.float16)
    try:
        assert torch.equal(affine(bias, x, W), expected)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:FutureWarning")  # torch's, at the first dual tensor
def test_tangents_and_negated_views_are_torchs() -> None:
    x, W, bias = bits(100, 784), torch.randn(784, 500), torch.randn(500)
    with forward_ad.dual_level():
        product = forward_ad.unpack_dual(affine(bias, x, forward_ad.make_dual(W, torch.ones_like(W))))
    assert product.tangent is not None
    torch.testing.assert_close(product.tangent[:, 0], x.sum(1))
    assert torch.equal(affine(bias, x, torch._neg_view(W)), plain(bias, x, -W))


def test_modes_of_torch_see_the_product() -> None:
    """Those that trace or count operations of tensors, which keep their class."""
    x, W, bias, other = bits(100, 784), torch.randn(784, 500), torch.randn(500), torch.rand(100, 784)
    with FlopCounterMode(display=False) as counter:
        affine(bias, x, W)
    assert counter.get_total_flops() == 2 * 100 * 784 * 500
    torch.testing.assert_close(make_fx(affine)(bias, x, W)(bias, other, W), plain(bias, other, W))


def test_autograd_sees_that_a_saved_tensor_has_changed() -> None:
    saved, leaf = torch.zeros(100, 500), torch.ones(100, 500, requires_grad=True)
    with torch.enable_grad():
        loss = (saved * leaf).sum()
    add_product(saved, bits(100, 784), torch.randn(784, 500))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.inference_mode():
        total = torch.zeros(100, 500)
        add_product(total, bits(100, 784), whole(784, 500))
    with pytest.raises(RuntimeError, match="outside InferenceMode"):
        add_product(total, bits(100, 784), whole(784, 500))


@needs_kernels
def test_programs_serve_any_number_of_rows() -> None:
    counter = CompileCounter()
    program = torch.compile(affine, backend=counter, fullgraph=True, dynamic=True)
    matrix, bias = whole(784, 500), whole(500)
    for rows in (100, 120, 140):
        x = bits(rows, 784)
        assert torch.equal(program(bias, x, matrix), x @ matrix + bias)
    assert counter.frame_count == 1


@needs_kernels
def test_programs_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bits are multiplied without the plain product, and other numbers by it."""
    program = torch.compile(lambda bias, x, matrix: affine(bias, x, matrix.T).relu(), fullgraph=True, dynamic=False)
    x, matrix, bias = bits(100, 784), whole(500, 784), whole(500)
    other, expected = torch.rand(100, 784), (x @ matrix.T + bias).relu()
    torch.testing.assert_close(program(bias, other, matrix), (other @ matrix.T + bias).relu(), rtol=0, atol=1e-3)
    monkeypatch.setattr(bit_products, "plain_affine", None)
    assert torch.equal(program(bias, x, matrix), expected)


@needs_kernels
def test_an_rbm_and_its_gradient_use_it() -> None:
    torch.manual_seed(2)
    rbm, v = RBM(784, 500), bits(100, 784)
    nn.init.normal_(rbm.W)
    double = RBM(784, 500).double()
    double.load_state_dict(rbm.state_dict())
    h = bits(100, 500)
    for ours, exact in [
        (rbm.hidden_given_visible(v), double.hidden_given_visible(v.double())),
        (rbm.visible_given_hidden(h), double.visible_given_hidden(h.double())),
    ]:
        torch.testing.assert_close(ours.double(), exact, rtol=0, atol=1e-4)
    torch.testing.assert_close(gradient(rbm, v).double(), gradient(double, v.double()), rtol=0, atol=1e-5)


def gradient(rbm: Energy, v: Tensor) -> Tensor:
    contrast = rbm.weighted_sum()
    contrast.add(v, weight=1 / len(v))
    contrast.add(1 - v, weight=-1 / len(v))
    with torch.enable_grad():
        contrast.value().backward()
    return torch.cat([p.grad.flatten() for p in rbm.parameters() if p.grad is not None])
