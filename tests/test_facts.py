"""What amplint takes for granted about number formats, mixed-precision training and autocast, shown by PyTorch itself.

Where common accounts of mixed precision and the installed PyTorch disagree, the test asserts what PyTorch does and its
docstring begins with "Not so:".

Nothing here can show what is history (two thirds of the activation gradients of one detector were zero in float16, and
scaling by 8 repaired its training; skipping one update in a thousand did no harm), what is hardware (matrix units that
are many times faster in half precision; memory that activations take in real networks), what needs several GPUs
(`DataParallel` hands the caller's autocast to its threads, `DistributedDataParallel` with one GPU per process has one
thread), or what is advice (to wrap forward pass and loss and not the backward pass).
"""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import fsdp
from torch.utils._python_dispatch import TorchDispatchMode

from amplint.torchlib.sharding import TAKEN
from amplint.torchlib.tables import TREATMENTS, policy

HALF, BRAIN, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64
POLICY = policy(".".join(torch.__version__.split(".")[:2]))
MATRIX = torch.tensor([[0.25, 0.5], [0.75, 0.5]])

# 1. Number formats


@dataclass(frozen=True)
class Format:
    """A floating format as tables of mixed precision describe it."""

    dtype: torch.dtype
    exponent_bits: int
    fraction_bits: int
    largest: float
    normal: float
    subnormal: float
    rounds_to_zero: float
    integers: int
    spacing: float

    @property
    def smallest(self) -> float:
        """The smallest number above zero."""
        return torch.finfo(self.dtype).smallest_normal * 2.0**-self.fraction_bits

    def holds(self, *values: float) -> list[float]:
        """What becomes of these numbers."""
        return torch.tensor(values, dtype=DOUBLE).to(self.dtype).tolist()


FORMATS = [
    Format(SINGLE, 8, 23, 3.4e38, 1.18e-38, 1.4e-45, 7.0e-46, 16_777_216, 1.19e-7),
    Format(HALF, 5, 10, 65504, 6.10e-5, 5.96e-8, 2.98e-8, 2_048, 9.77e-4),
    Format(BRAIN, 8, 7, 3.39e38, 1.18e-38, 9.2e-41, 4.6e-41, 256, 7.81e-3),
]
formats = pytest.mark.parametrize("number", FORMATS, ids=lambda number: str(number.dtype))


def near(value: float) -> Any:
    """Equal as far as a table with three digits tells."""
    return pytest.approx(value, rel=5e-3, abs=0)


@formats
def test_bits(number: Format) -> None:
    limits, bias = torch.finfo(number.dtype), 2 ** (number.exponent_bits - 1) - 1
    assert limits.bits == 1 + number.exponent_bits + number.fraction_bits
    assert limits.eps == 2.0**-number.fraction_bits
    assert limits.smallest_normal == 2.0 ** (1 - bias)
    assert limits.max == -limits.min == 2.0**bias * (2 - limits.eps)


@formats
def test_limits(number: Format) -> None:
    limits = torch.finfo(number.dtype)
    assert limits.max == near(number.largest)
    assert limits.smallest_normal == near(number.normal)
    assert number.holds(limits.max, limits.smallest_normal) == [limits.max, limits.smallest_normal]


@formats
def test_spacing_at_one(number: Format) -> None:
    spacing = torch.finfo(number.dtype).eps
    assert spacing == near(number.spacing)
    assert number.holds(1 + spacing, 1 + spacing / 2) == [1 + spacing, 1]


@formats
def test_smallest_subnormal(number: Format) -> None:
    assert number.smallest == pytest.approx(number.subnormal, rel=1e-2, abs=0)
    assert number.holds(number.smallest) == [number.smallest]


@formats
def test_what_rounds_to_zero(number: Format) -> None:
    assert number.smallest / 2 == near(number.rounds_to_zero)
    assert number.holds(number.smallest / 2, number.smallest * 0.51) == [0, number.smallest]


@formats
def test_exact_integers(number: Format) -> None:
    last = number.integers
    assert last == 2 ** (number.fraction_bits + 1)
    assert number.holds(last - 1, last, last + 1, last + 2) == [last - 1, last, last, last + 2]


def half(*values: float) -> Tensor:
    """These numbers in float16."""
    return torch.tensor(values, dtype=HALF)


def test_float16_overflows_from_65520_up() -> None:
    assert torch.tensor([65519.0, 65520.0], dtype=DOUBLE).to(HALF).tolist() == [65504, math.inf]


def test_products_that_overflow() -> None:
    assert (half(255) * half(255)).item() == 65024  # 65025 rounded
    assert (half(256) * half(256)).item() == math.inf


def test_squares_overflow_from_256_up() -> None:
    """Not so: not everything past 255 overflows; the last number before 256 does not."""
    before = torch.nextafter(half(256), half(0))
    assert before.item() == 255.875
    assert before.square().item() == 65472
    assert half(256).square().item() == math.inf


def test_small_constants_in_float16() -> None:
    assert half(1e-8, 1e-12).tolist() == [0, 0]
    assert half(1e-7).item() == 2.0**-23 == pytest.approx(1.19e-7, rel=5e-3)
    assert half(1e-7).item() < torch.finfo(HALF).smallest_normal


def test_small_constants_in_bfloat16() -> None:
    kept = torch.tensor([1e-7, 1e-8, 1e-12], dtype=BRAIN)
    assert kept.tolist() == pytest.approx([1e-7, 1e-8, 1e-12], rel=2**-8)
    assert (torch.ones((), dtype=BRAIN) + 1e-3).item() == 1


def test_swamping() -> None:
    assert (half(2**-3) + half(2**-14)).item() == 2**-3


def test_how_much_smaller_a_swamped_number_is() -> None:
    """Not so: a ratio above 2^11 does not do; what is surely lost is 2^12 times smaller.

    Half a spacing is lost. That is 2^-11 of a power of two, but nearly 2^-12 of the largest number below the next.
    """
    larger = torch.arange(1024, 2048).to(HALF) / 1024  # every float16 from 1 to 2
    smaller = larger * 2.0**-12
    assert torch.equal(larger + smaller, larger)
    assert torch.equal(larger - smaller, larger)
    wide = larger[-1]
    assert wide / (wide / 2060) > 2**11
    assert wide + wide / 2060 > wide
    assert half(1) - half(2**-11) < half(1)  # numbers lie closer below a power of two


def test_updates_are_lost_in_float16_weights() -> None:
    weight, update = torch.ones((), dtype=HALF), 1 / 4096
    master = weight.float()
    for _ in range(4096):
        weight += update
        master += update
    assert weight.item() == 1
    assert master.item() == 2


@pytest.mark.parametrize("fill", [1e9, 1e10, -1e20, 65520.0, 65505.0])
def test_masks_that_float16_cannot_hold(fill: float) -> None:
    """Not so: today's message says `c10::Half`. And what arithmetic would round down to the largest raises as well."""
    x = half(1, 2)
    for method in (x.masked_fill, x.clone().masked_fill_):
        with pytest.raises(RuntimeError, match="value cannot be converted to type c10::Half without overflow"):
            method(x > 1, fill)


@pytest.mark.parametrize("constant", [1e9, 1e10])
def test_arithmetic_with_such_constants_is_infinite(constant: float) -> None:
    assert (half(1) + constant).item() == math.inf
    assert (half(1) - constant).item() == -math.inf
    assert (half(1) * constant).item() == math.inf


def test_masks_that_always_fit() -> None:
    x = half(1, 2)
    assert x.masked_fill(x > 1, torch.finfo(x.dtype).min).tolist() == [1, -65504]
    assert x.masked_fill(x > 1, -float("inf")).tolist() == [1, -math.inf]
    wide = x.bfloat16()
    assert wide.masked_fill(wide > 1, -1e20).isfinite().all()


def test_a_row_that_is_masked_altogether() -> None:
    assert torch.full((2,), -math.inf, dtype=HALF).softmax(0).isnan().all()
    assert torch.full((2,), torch.finfo(HALF).min, dtype=HALF).softmax(0).tolist() == [0.5, 0.5]


# 2. Mixed-precision training


@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_dot_products_accumulate_in_float32(dtype: torch.dtype) -> None:
    ones = torch.ones(4096, dtype=dtype)
    assert (ones.view(1, -1) @ ones.view(-1, 1)).item() == ones.sum().item() == 4096
    total = torch.zeros((), dtype=dtype)
    for one in ones:
        total += one
    assert total.item() == {HALF: 2048, BRAIN: 256}[dtype]


@pytest.mark.parametrize("function", [torch.relu, torch.sigmoid, torch.tanh, lambda x: x * 0.5, lambda x: x + 1])
def test_pointwise_functions_that_are_safe(function: Callable[[Tensor], Tensor]) -> None:
    x = torch.linspace(-100, 100, 4001).half()
    torch.testing.assert_close(function(x), function(x.float()).half(), rtol=2**-10, atol=2**-24)


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (torch.exp, 12.0),
        (torch.square, 300.0),
        (torch.log, 1e-8),
        (lambda x: F.cross_entropy(x.softmax(0).log(), torch.tensor(1)), [20.0, 0.0]),
    ],
)
def test_functions_that_need_float32(function: Callable[[Tensor], Tensor], value: Any) -> None:
    x = torch.tensor(value)
    assert function(x).isfinite()
    assert not function(x.half()).isfinite()


def test_reductions_that_need_float32() -> None:
    x = torch.full((70_000,), 2.0)
    assert x.half().sum().item() == math.inf
    assert x.half().sum(dtype=SINGLE).item() == x.sum().item() == 140_000
    y = torch.full((4,), 300.0)
    assert y.half().square().sum().sqrt().item() == math.inf
    assert y.half().norm().item() == y.norm().item() == 600
    z = torch.tensor([-300.0, 300.0])
    assert z.half().square().mean().item() == math.inf


def test_normalisation_reads_and_writes_half_and_computes_in_float32() -> None:
    x = torch.tensor([[-300.0, 300.0]])
    normalised = F.layer_norm(x.half(), (2,))
    assert normalised.dtype is HALF
    assert normalised.tolist() == [[-1, 1]]


def test_losses_of_half_tensors() -> None:
    """Not so: that losses compute in float32 inside is no more than a guideline; some of the CPU's sum in half."""
    x = torch.ones(70_000, dtype=HALF)
    assert F.mse_loss(x, torch.zeros_like(x)).item() == 1
    log_probabilities = torch.full((60_000, 2), -3.0)
    targets = torch.zeros(60_000, dtype=torch.int64)
    assert F.nll_loss(log_probabilities, targets).item() == 3
    assert F.nll_loss(log_probabilities.half(), targets).item() == math.inf
    assert x.log_softmax(0)[0].item() == -math.inf
    assert x.log_softmax(0, dtype=SINGLE)[0].item() == pytest.approx(-math.log(70_000))


def test_probabilities_and_losses_are_float32_under_cuda_autocast() -> None:
    with cuda():
        x = torch.ones(4, 4, dtype=HALF, device="cuda")
        target = torch.zeros(4, dtype=torch.int64, device="cuda")
        losses = [F.mse_loss(x, x), F.kl_div(x, x, reduction="sum"), F.nll_loss(x, target), F.cross_entropy(x, target)]
        assert {one.dtype for one in [x.softmax(0), x.log_softmax(0), *losses]} == {SINGLE}


def test_scaling_lifts_what_float16_would_lose() -> None:
    gradients = torch.tensor([2.0**-26, 2.0**-27])
    assert gradients.half().tolist() == [0, 0]
    assert ((gradients * 8).half().float() / 8).tolist() == gradients.tolist()


def step(scale: float, act: Callable[[nn.Parameter], None], *, unscale_first: bool) -> float:
    """A weight of 1 after a step with the gradient 3; `act` sees the gradients after or before they are unscaled."""
    weight = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.125)
    (weight * 3 * scale).backward()
    assert weight.grad is not None
    if unscale_first:
        weight.grad /= scale
    act(weight)
    if not unscale_first:
        weight.grad /= scale
    optimizer.step()
    return weight.item()


def clip(weight: nn.Parameter) -> None:
    """Uses gradients as gradient clipping does."""
    nn.utils.clip_grad_norm_([weight], 1.0)


def add_decay(weight: nn.Parameter) -> None:
    """Uses gradients as weight decay does."""
    assert weight.grad is not None
    weight.grad += 0.5 * weight.detach()


@pytest.mark.parametrize("act", [clip, add_decay])
def test_gradients_are_unscaled_before_they_are_used(act: Callable[[nn.Parameter], None]) -> None:
    wanted = step(1.0, act, unscale_first=True)
    assert step(1024.0, act, unscale_first=True) == pytest.approx(wanted, rel=1e-6)
    assert step(1024.0, act, unscale_first=False) != pytest.approx(wanted, rel=1e-2)


def test_the_scale_moves() -> None:
    """It starts large, is halved on an overflow, and doubles after so many good steps."""
    weight = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", growth_interval=3)
    scales = [scaler.get_scale()]
    for gradient in (1.0, math.inf, 1.0, 1.0, 1.0, math.nan):
        weight.grad = None
        scaler.scale(weight * gradient).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [65536, 65536, 32768, 32768, 32768, 65536, 32768]


def test_defaults_of_the_scale() -> None:
    scaler = torch.amp.GradScaler("cpu")
    assert scaler.get_scale() == 65536
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (2, 0.5, 2000)


def test_a_skipped_update_skips_momenta_too() -> None:
    weight = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.Adam([weight])
    scaler = torch.amp.GradScaler("cpu")

    def train(gradient: float) -> tuple[float, list[float]]:
        weight.grad = None
        scaler.scale(weight * gradient).backward()
        scaler.step(optimizer)
        scaler.update()
        return weight.item(), [value.item() for value in optimizer.state[weight].values()]

    before = train(1.0)
    assert train(math.inf) == before
    assert train(1.0) != before


def test_at_most_one_step_per_interval_is_skipped() -> None:
    """The worst case, an overflow at every growth; with the default interval of 2000 that is less than 0.05%."""
    interval, steps, skipped = 20, 420, 0
    weight = nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=interval)
    for _ in range(steps):
        before = scaler.get_scale()
        weight.grad = None
        scaler.scale(weight * (math.inf if before > 1024 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < before
    assert skipped == 20 == steps // (interval + 1)
    assert 1 / (2000 + 1) < 0.0005


def test_activations_and_their_gradients_halve() -> None:
    """Gradients of parameters do not under autocast, where parameters stay in float32; with half parameters they do."""
    linear = nn.Linear(2, 2)
    with torch.autocast("cpu"):
        activation = linear(MATRIX)
    activation.retain_grad()
    activation.float().sum().backward()
    assert activation.grad is not None
    assert linear.weight.grad is not None
    assert activation.element_size() == activation.grad.element_size() == 2
    assert linear.weight.grad.element_size() == 4
    linear = nn.Linear(2, 2).bfloat16()
    linear(MATRIX.bfloat16()).sum().backward()
    assert linear.weight.grad is not None
    assert linear.weight.grad.element_size() == 2


def test_model_states_of_adam_take_sixteen_bytes_per_parameter() -> None:
    weight = torch.ones(1000, dtype=BRAIN, requires_grad=True)
    weight.sum().backward()
    master = weight.detach().float().requires_grad_()
    assert weight.grad is not None
    master.grad = weight.grad.float()
    optimizer = torch.optim.Adam([master])
    optimizer.step()
    states = optimizer.state[master]
    kept = [weight, weight.grad, master, states["exp_avg"], states["exp_avg_sq"]]
    sizes = [tensor.nbytes / 1000 for tensor in kept]
    assert sizes == [2, 2, 4, 4, 4]
    assert [3.5 * sizes[0], 3.5 * sizes[1], 3.5 * sum(sizes[2:])] == [7, 7, 42]  # GB for 3.5 billion parameters


# 3. Autocast


def names_and_defaults(function: Callable[..., object]) -> list[tuple[str, object]]:
    """The parameters of a method."""
    _, *parameters = inspect.signature(function).parameters.values()
    return [(one.name, one.default) for one in parameters]


def test_parameters_of_autocast() -> None:
    assert names_and_defaults(torch.autocast.__init__) == [
        ("device_type", inspect.Parameter.empty),
        ("dtype", None),
        ("enabled", True),
        ("cache_enabled", None),
    ]


def test_deprecated_spellings_have_another_order() -> None:
    for old, dtype in {torch.cuda.amp.autocast: HALF, torch.cpu.amp.autocast: BRAIN}.items():
        expected = [("enabled", True), ("dtype", dtype), ("cache_enabled", True)]
        assert names_and_defaults(old.__init__) == expected
        with pytest.warns(FutureWarning, match="is deprecated"):
            old(enabled=False)


def test_a_context_manager_and_a_decorator() -> None:
    @torch.autocast("cpu")
    def decorated() -> torch.dtype:
        return (MATRIX @ MATRIX).dtype

    assert decorated() is BRAIN
    with torch.autocast("cpu"):
        assert (MATRIX @ MATRIX).dtype is BRAIN
    assert (MATRIX @ MATRIX).dtype is SINGLE


def test_default_dtypes() -> None:
    for device, dtype in {"cuda": HALF, "cpu": BRAIN}.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there may be no such device
            assert torch.autocast(device).fast_dtype is dtype
        assert str(dtype) == f"torch.{POLICY.default_dtype[device]}"


def test_a_device_is_no_device_type() -> None:
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(torch.device("cpu"))


def test_a_device_type_may_have_an_index() -> None:
    """Not so: that `"cuda:0"` is refused was true of older versions."""
    with torch.autocast("cpu:0"):
        assert (MATRIX @ MATRIX).dtype is BRAIN
    assert torch.autocast("cuda:0").fast_dtype is HALF


@pytest.mark.parametrize("inside", [True, False])
def test_backward_runs_in_the_dtypes_of_forward(inside: bool) -> None:
    weight, linear = nn.Parameter(MATRIX.clone()), nn.Linear(2, 2)
    with torch.autocast("cpu"):
        hidden = MATRIX @ weight
        loss = linear(hidden).float().sum()
    arrived: list[torch.dtype] = []
    hidden.register_hook(lambda gradient: arrived.append(gradient.dtype))
    with torch.autocast("cpu", enabled=inside), Casts() as casts:
        loss.backward()
    assert arrived == [BRAIN]
    assert set(casts.products) == {BRAIN}


class Casts(TorchDispatchMode):
    """Counts the casts of a tensor, by its address, and notes the dtypes in which matrices are multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[int, int] = {}
        self.products: list[torch.dtype] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten._to_copy.default:
            self.of[args[0].data_ptr()] = self.of.get(args[0].data_ptr(), 0) + 1
        if function in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
            self.products.append(args[-1].dtype)
        return function(*args, **(kwargs or {}))


def test_a_model_in_float16_does_not_go_with_scaling() -> None:
    model = nn.Linear(2, 2).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    with torch.autocast("cpu", dtype=HALF):
        loss = model(MATRIX).float().sum()
    scaler.scale(loss).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(optimizer)


def test_results_of_a_region_do_not_go_with_float32_outside() -> None:
    """Products raise; elementwise operations and losses go to the wider type and do not."""
    with torch.autocast("cpu"):
        inside = MATRIX @ MATRIX
    for product in (torch.mm, F.linear, torch.matmul):
        with pytest.raises(RuntimeError, match="same dtype"):
            product(inside, MATRIX)
        assert product(inside.float(), MATRIX).dtype is SINGLE
    for other in (torch.add, torch.mul, F.mse_loss):
        assert other(inside, MATRIX).dtype is SINGLE


def test_a_disabled_region_inside_another() -> None:
    with torch.autocast("cpu"):
        inside = MATRIX @ MATRIX
        with torch.autocast("cpu", enabled=False):
            with pytest.raises(RuntimeError, match="same dtype"):
                inside @ MATRIX
            full = inside.float() @ MATRIX
            assert full.dtype is SINGLE
            with torch.autocast("cpu"):
                assert (full @ inside).dtype is BRAIN
        assert (full @ inside).dtype is BRAIN


def in_thread(function: Callable[[], torch.dtype]) -> torch.dtype:
    """What `function` returns in a new thread."""
    results: list[torch.dtype] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_new_thread_is_in_no_region() -> None:
    with torch.autocast("cpu"):
        assert in_thread(lambda: (MATRIX @ MATRIX).dtype) is SINGLE
    entered = torch.autocast("cpu")(lambda: (MATRIX @ MATRIX).dtype)
    assert in_thread(entered) is BRAIN


def test_a_forward_method_with_autocast_works_in_any_thread() -> None:
    class Model(nn.Linear):
        @torch.autocast("cpu")
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)

    model = Model(2, 2)
    assert in_thread(lambda: model(MATRIX).dtype) is BRAIN


@pytest.mark.parametrize(("cached", "casts_of_weight"), [(True, 1), (False, 2)])
def test_a_weight_is_cast_once_per_region(cached: bool, casts_of_weight: int) -> None:
    weight = nn.Parameter(MATRIX.clone())
    plain = MATRIX.clone()
    with Casts() as casts:
        for _ in range(2):
            with torch.autocast("cpu", cache_enabled=cached):
                plain @ weight
                plain @ weight
    assert casts.of == {weight.data_ptr(): 2 * casts_of_weight, plain.data_ptr(): 4}


@pytest.mark.parametrize("cached", [True, False])
def test_a_forward_pass_without_gradients_does_no_harm(cached: bool) -> None:
    """Not so: that its cast is kept, so that the next forward pass of the region gets no gradient, is mended."""
    weight = nn.Parameter(MATRIX.clone())
    with torch.autocast("cpu", cache_enabled=cached):
        with torch.no_grad():
            MATRIX @ weight
        trained = MATRIX @ weight
    trained.float().sum().backward()
    assert weight.grad is not None


def test_tracing_needs_the_cache_off() -> None:
    class Twice(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + super().forward(x)

    def trace(cached: bool) -> Any:
        with warnings.catch_warnings(), torch.autocast("cpu", cache_enabled=cached):
            warnings.simplefilter("ignore")
            return torch.jit.trace(Twice(2, 2), MATRIX)

    with pytest.raises(RuntimeError, match="requires grad as a constant"):
        trace(cached=True)
    assert trace(cached=False)(MATRIX).shape == (2, 2)


@pytest.mark.parametrize("dtype", [DOUBLE, torch.int64])
def test_float64_and_integers_are_left_alone(dtype: torch.dtype) -> None:
    x = torch.ones(2, 2, dtype=dtype)
    with torch.autocast("cpu"):
        assert (x @ x).dtype is dtype


def test_in_place_and_out_are_left_alone() -> None:
    with torch.autocast("cpu"):
        assert MATRIX.addmm(MATRIX, MATRIX).dtype is BRAIN
        assert MATRIX.clone().addmm_(MATRIX, MATRIX).dtype is SINGLE
        assert torch.mm(MATRIX, MATRIX, out=torch.empty(2, 2)).dtype is SINGLE
        product = MATRIX @ MATRIX
        with pytest.raises(RuntimeError, match="must have the same dtype"):
            MATRIX.clone().addmm_(product, MATRIX)


def test_a_given_dtype_counts() -> None:
    with cuda():
        x = torch.ones(2, 2, dtype=HALF, device="cuda")
        for dtype in (HALF, BRAIN, DOUBLE):
            assert x.softmax(0, dtype=dtype).dtype is dtype
            assert x.sum(dtype=dtype).dtype is dtype


class Product(torch.autograd.Function):
    """A product whose forward pass knows of autocast and whose backward pass does not."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return gradient @ weight.t(), x.t() @ gradient


class DecoratedProduct(Product):
    """The same with both."""

    backward = staticmethod(torch.amp.custom_bwd(device_type="cpu")(Product.backward))


class Undecorated(Product):
    """Only the backward pass."""

    forward = staticmethod(inspect.unwrap(Product.forward))
    backward = staticmethod(DecoratedProduct.backward)


def test_custom_functions_need_both_decorators() -> None:
    def run(function: type[Product]) -> Tensor | None:
        weight = nn.Parameter(MATRIX.clone())
        with torch.autocast("cpu"):
            result = function.apply(MATRIX.clone().requires_grad_(), weight)
        assert result.dtype is BRAIN
        result.float().sum().backward()
        return weight.grad

    gradient = run(DecoratedProduct)
    assert gradient is not None
    assert gradient.dtype is SINGLE
    with pytest.raises(RuntimeError, match="same dtype"):
        run(Product)
    with pytest.raises(AttributeError, match="_fwd_used_autocast"):
        run(Undecorated)


@pytest.mark.parametrize(("device", "cast"), [("cpu", True), ("cuda", False)])
def test_cast_inputs_of_custom_functions(device: str, cast: bool) -> None:
    """Tensors of another device than the named one stay as they are, and so does float64."""
    seen: list[tuple[torch.dtype, torch.dtype, torch.dtype, bool]] = []

    class Function(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=device, cast_inputs=SINGLE)
        def forward(ctx: Any, x: Tensor, wide: Tensor, index: Tensor) -> Tensor:
            seen.append((x.dtype, wide.dtype, index.dtype, torch.is_autocast_enabled(device)))
            return x

    torch.set_autocast_enabled(device, True)
    try:
        Function.apply(half(1), torch.ones((), dtype=DOUBLE), torch.ones((), dtype=torch.int64))
    finally:
        torch.set_autocast_enabled(device, False)
    assert seen == [(SINGLE if cast else HALF, DOUBLE, torch.int64, False)]


# Which operation runs in which dtype


def words(text: str) -> set[str]:
    return set(text.split())


TO_HALF = words(
    "matmul addbmm addmm addmv addr baddbmm bmm chain_matmul linalg_multi_dot conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d conv_transpose3d gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell linear mm mv prelu "
    "scaled_dot_product_attention einsum linalg_vecdot conv_tbc"
)
TO_FLOAT32 = words(
    "pow acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist cosine_similarity cumprod cumsum "
    "dist erfinv exp expm1 group_norm hinge_embedding_loss kl_div l1_loss layer_norm log log10 log_softmax log1p log2 "
    "margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss nll_loss norm pdist poisson_nll_loss prod "
    "reciprocal rsqrt sinh smooth_l1_loss soft_margin_loss softmax softplus sum renorm tan triplet_margin_loss "
    "rms_norm logsumexp huber_loss linalg_vector_norm linalg_matrix_norm upsample_nearest1d upsample_nearest2d "
    "upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d"
)
TO_WIDEST = words(
    "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot vdot"
)  # `F.grid_sample` is `grid_sampler`
THROUGH_OTHERS = words("cross_entropy cross_entropy_loss normalize softmin rdiv rpow rtruediv")
UNTOUCHED = words("mean var std sqrt sigmoid gelu batch_norm mul square relu max")


def listed(device: str, *treatments: str) -> frozenset[str]:
    """The operators that autocast for `device` treats in one of these ways, any by default."""
    return frozenset[str]().union(*(getattr(POLICY, treatment)[device] for treatment in treatments or TREATMENTS))


def test_lists_of_cuda() -> None:
    assert listed("cuda", "lower") >= TO_HALF
    assert listed("cuda", "float32", "float32_set_dtype", "float32_append_dtype") >= TO_FLOAT32
    assert listed("cuda", "promote") == TO_WIDEST
    assert listed("cuda", "banned") == {"binary_cross_entropy"}
    assert not listed("cuda") & (THROUGH_OTHERS | UNTOUCHED)


@contextlib.contextmanager
def cuda() -> Iterator[None]:
    """Fake CUDA tensors under the dispatcher's own CUDA autocast, in float16; nothing is computed."""
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", HALF)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            yield
    finally:
        torch.set_autocast_enabled("cuda", False)


class Seen(TorchDispatchMode):
    """The operators that run, with the dtype of their first operand and of their result."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[tuple[str, torch.dtype, torch.dtype]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.ran.append((function.overloadpacket.__name__, args[0].dtype, result.dtype))
        return result


@pytest.mark.parametrize(
    "operation",
    [
        *(torch.mean, torch.var, torch.std, torch.sqrt, torch.sigmoid, F.gelu, torch.relu, torch.max),
        lambda x: x * x,
        lambda x: F.batch_norm(x, x.select(0, 0).float(), x.select(0, 0).float()),
    ],
)
def test_what_stays_half_under_cuda_autocast(operation: Callable[[Tensor], Tensor]) -> None:
    with cuda():
        assert operation(torch.ones(4, 4, dtype=HALF, device="cuda")).dtype is HALF


@pytest.mark.parametrize(
    ("operation", "operator"),
    [
        (lambda x: x.softmax(-1), "_softmax"),
        (lambda x: x.log_softmax(-1), "_log_softmax"),
        (lambda x: x.sum(), "sum"),
        (lambda x: x.norm(), "linalg_vector_norm"),
        (lambda x: x.cumsum(0), "cumsum"),
    ],
)
def test_half_in_float32_out_without_a_cast(operation: Callable[[Tensor], Tensor], operator: str) -> None:
    with cuda():
        x = torch.ones(4, 4, dtype=HALF, device="cuda")
        with Seen() as seen:
            operation(x)
    assert seen.ran == [(operator, HALF, SINGLE)]


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: F.normalize(x),
        lambda x: F.softmin(x, -1),
        lambda x: x.__rdiv__(1),
        lambda x: x.__rtruediv__(1),
        lambda x: x.__rpow__(2),
        lambda x: F.interpolate(x.view(1, 1, 4, 4), scale_factor=2.0),
    ],
)
def test_float32_through_what_it_is_made_of(operation: Callable[[Tensor], Tensor]) -> None:
    with cuda():
        assert operation(torch.ones(4, 4, dtype=HALF, device="cuda")).dtype is SINGLE


def test_a_square_is_a_power() -> None:
    """Not so: `torch.square` is not on autocast's lists, but gives float32 because it calls `pow`; `x * x` does not."""
    with cuda():
        x = torch.ones(4, 4, dtype=HALF, device="cuda")
        with Seen() as seen:
            assert x.square().dtype is SINGLE
        assert (x * x).dtype is HALF
    assert [name for name, *_ in seen.ran] == ["_to_copy", "pow"]


def test_einsum_goes_through_bmm() -> None:
    with cuda():
        x = torch.ones(4, 4, device="cuda")
        with Seen() as seen:
            torch.einsum("ij,jk->ik", x, x)
    assert ("bmm", HALF, HALF) in seen.ran


def test_cross_entropy_keeps_its_log_softmax_in_half() -> None:
    with cuda():
        logits = torch.ones(4, 4, dtype=HALF, device="cuda")
        target = torch.zeros(4, dtype=torch.int64, device="cuda")
        with Seen() as whole:
            loss = F.cross_entropy(logits, target)
        with Seen() as parts:
            F.log_softmax(logits, -1)
    assert loss.dtype is SINGLE
    assert whole.ran[0] == ("_log_softmax", HALF, HALF)
    assert parts.ran == [("_log_softmax", HALF, SINGLE)]


@pytest.mark.parametrize(
    "operation",
    [
        lambda half, single: torch.addcmul(half, single, half),
        lambda half, single: torch.addcdiv(half, single, half),
        lambda half, single: torch.atan2(half, single),
        lambda half, single: torch.tensordot(half, single, 1),
        lambda half, single: half.scatter_add(0, torch.zeros(4, 4, dtype=torch.int64, device="cuda"), single),
    ],
)
def test_the_widest_type_wins(operation: Callable[[Tensor, Tensor], Tensor]) -> None:
    with cuda():
        single = torch.ones(4, 4, device="cuda")
        assert operation(single.half(), single).dtype is SINGLE
        if operation(single, single).dtype is SINGLE:  # tensordot is a product
            assert operation(single.half(), single.half()).dtype is HALF


def test_binary_cross_entropy_is_banned_on_cuda() -> None:
    with cuda():
        logits = torch.ones(4, 4, device="cuda")
        for loss in (F.binary_cross_entropy, nn.BCELoss()):
            with pytest.raises(RuntimeError, match="unsafe to autocast"):
                loss(logits.sigmoid(), logits)
        for loss in (F.binary_cross_entropy_with_logits, nn.BCEWithLogitsLoss()):
            assert loss(logits.half(), logits).dtype is SINGLE


def test_binary_cross_entropy_is_allowed_on_the_cpu() -> None:
    with torch.autocast("cpu"):
        assert F.binary_cross_entropy(torch.sigmoid(MATRIX @ MATRIX), MATRIX).dtype is SINGLE


def test_lists_of_the_cpu() -> None:
    """Not so: transposed convolutions run in low precision, and float32 is not for all of `fft_*` and `linalg_*`."""
    lower, float32 = listed("cpu", "lower"), listed("cpu", "float32")
    assert lower >= words("conv1d conv2d conv3d bmm mm linear matmul baddbmm addmm addbmm")
    assert lower >= words("conv_transpose1d conv_transpose2d conv_transpose3d linalg_vecdot")
    assert float32 >= words(
        "avg_pool3d binary_cross_entropy grid_sampler grid_sampler_2d grid_sampler_3d polar prod quantile stft cdist "
        "trace cholesky inverse fft_fft linalg_inv linalg_svd"
    )
    assert not listed("cpu") & words("fft_hfft2 fft_fftshift linalg_vector_norm linalg_matrix_norm linalg_det")
    assert listed("cpu", "promote") == words("cat stack index_copy")
    assert not listed("cpu") & words("softmax log_softmax layer_norm group_norm sum exp pow")


def test_the_cpu_does_not_show_what_cuda_does() -> None:
    with torch.autocast("cpu"):
        x = MATRIX @ MATRIX
        results = [x.softmax(-1), F.layer_norm(x, (2,)), x.sum(), x.exp(), x**2]
    assert {result.dtype for result in results} == {BRAIN}
    with cuda():
        x = torch.ones(4, 4, dtype=HALF, device="cuda")
        results = [x.softmax(-1), F.layer_norm(x, (4,)), x.sum(), x.exp(), x**2]
    assert {result.dtype for result in results} == {SINGLE}


def test_the_cpu_takes_float16_too() -> None:
    with torch.autocast("cpu", dtype=HALF):
        assert (MATRIX @ MATRIX).dtype is HALF


@pytest.mark.parametrize("name", TAKEN)
def test_what_sharding_takes_by_name(name: str) -> None:
    assert inspect.signature(getattr(fsdp, name)).parameters.keys() == TAKEN[name]
