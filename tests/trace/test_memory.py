"""Peaks of memory by what CUDA would allocate, worked out by hand, and how a script becomes its variants."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import runpy
import subprocess
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest
import torch
import torch.distributed.nn
from torch import distributed, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from amplint.trace.dry import dry_run
from amplint.trace.gpus import GPUS
from amplint.trace.memory import estimating
from amplint.trace.memory.blocks import repeated
from amplint.trace.memory.estimates import KINDS, Variant, variants
from amplint.trace.memory.refused import Refused
from amplint.trace.memory.regions import Seen, seeing
from amplint.trace.memory.running import estimate, tracked
from amplint.trace.memory.tracker import Tracker
from tests.conftest import Command
from tests.trace.forked import python

TRAINED = Path(__file__).parent / "trained"
MIB = 2**20
CUBLAS = 2 * (8 * MIB + 128 * 1024)
"""What cuBLAS keeps for the forward and the backward pass."""


def peak(program: str | Callable[[], Any], gpu: str = "a100", **changes: Any) -> dict[str, int]:
    """The peak of a program of `trained`, or of a function."""
    return peak_of_file(program, gpu, **changes) if isinstance(program, str) else tracking(program, gpu, **changes)


@functools.cache
def peak_of_file(name: str, gpu: str, **changes: Any) -> dict[str, int]:
    """The peak of a program of `trained`."""
    return tracking(lambda: runpy.run_path(str(TRAINED / f"{name}.py"), run_name="__main__"), gpu, **changes)


def tracking(program: Callable[[], Any], gpu: str, **changes: Any) -> dict[str, int]:
    """The peak of a function."""
    tracker = Tracker(GPUS[gpu])
    with tracked(Variant("", **changes), GPUS[gpu], tracker):
        program()
    return tracker.peak


def test_a_perceptron_peaks_in_the_step_of_its_optimizer() -> None:
    parameters = 4 * (1024 * 4096 + 4096 + 4096 * 1024 + 1024)
    assert peak("mlp") == {
        "parameters": parameters,
        "gradients": parameters,
        "optimizer": 2 * parameters,
        "activations": 512,  # the loss
        "half copies": 0,
        "inputs and buffers": 2 * 4 * 512 * 1024,
        "temporary": parameters,  # the roots of Adam's second moments, which its foreach form makes all at once
        "workspaces": CUBLAS,
    }


def test_a_convolutional_network_peaks_when_its_backward_pass_begins() -> None:
    image = 2 * 64 * 128 * 64 * 64
    found = peak("cnn")
    # The stem's result; of each block what its normalisations and its second convolution read, and what it returns.
    large = (1 + 4 * 4) * image
    copy_of_data = 2 * 64 * 3 * 64 * 64
    assert 0 <= found["activations"] - large - copy_of_data < 64 * 1024
    assert found["temporary"] == 2 * image  # the gradients of the pooling and of the last ReLU
    assert found["parameters"] == found["optimizer"]
    assert found["half copies"] == 14 * 512 + 8 * 2 * 128 * 128 * 9  # those of the last layer are not needed any more


def test_a_transformer_peaks_in_its_loss() -> None:
    tokens, width, heads, vocabulary, layers = 8 * 512, 384, 6, 8192, 4
    numbers = tokens * width
    statistics = 2 * 4 * tokens
    # What addition, normalisation and products read, twice; query, key and value; what attention and GELU take and
    # give; and a mask of dropout.
    block = (4 + 2 + 6 + 2 + 4 + 2 + 8 + 8 + 1) * numbers + 2 * statistics
    attention = 4 * tokens * heads + 2 * 512  # sums of each row, and the state of the random numbers
    logits = tokens * vocabulary
    end = (4 + 2) * numbers + statistics + (2 + 2 + 4) * logits
    targets, scalars = 8 * tokens, 3 * 512
    found = peak("transformer")
    assert found["activations"] == layers * (block + attention) + end + scalars
    assert found["inputs and buffers"] == (8 * (tokens + 8) // 512 + 1) * 512 + targets + 8 * 512  # with positions
    assert found["temporary"] == 4 * logits
    assert found["gradients"] == 0
    assert found["workspaces"] == CUBLAS


def test_attention_on_a_gpu_without_flash_keeps_no_matrix_either() -> None:
    flash, efficient = peak("transformer")["activations"], peak("transformer", "t4")["activations"]
    assert abs(flash - efficient) < 64 * 1024


@pytest.mark.parametrize(("gpu", "size"), [("a100", 8320 * 1024), ("h100", 32 * MIB), ("b200", 8320 * 1024)])
def test_workspaces_of_cublas_are_larger_on_hopper(gpu: str, size: int) -> None:
    def product() -> None:
        torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")

    assert peak(product, gpu)["workspaces"] == size


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_fused_rms_norm"), reason="this PyTorch has no kernel for it")
def test_an_rms_norm_is_one_kernel() -> None:
    def train() -> None:
        model = nn.Sequential(*(nn.RMSNorm(512) for _ in range(4))).cuda()
        model(torch.ones(1024, 512, device="cuda")).sum().backward()

    # What the last three read, a number for each row of each, the loss and its gradient.
    assert peak(train)["activations"] == 3 * 4 * 1024 * 512 + 4 * 4 * 1024 + 2 * 512


@pytest.mark.parametrize("dropout", [nn.Dropout(0.0), nn.Dropout(0.5).eval()], ids=["never", "evaluation"])
def test_dropout_that_does_nothing_keeps_nothing(dropout: nn.Module) -> None:
    def forward(*layers: nn.Module) -> dict[str, int]:
        return peak(lambda: nn.Sequential(nn.Linear(256, 256), *layers).cuda()(torch.ones(512, 256).cuda()).sum())

    assert forward(dropout) == forward()


def test_a_peak_in_the_backward_pass_is_at_the_line_whose_gradient_is_computed() -> None:
    tracker = Tracker(GPUS["a100"])
    with tracked(Variant(""), GPUS["a100"], tracker):
        runpy.run_path(str(TRAINED / "transformer.py"), run_name="__main__")
    source = (TRAINED / "transformer.py").read_text(encoding="utf-8").splitlines()
    assert tracker.phase == "backward"
    assert "F.cross_entropy" in source[tracker.line[1] - 1]


def test_a_peak_in_inference_is_at_its_line(tmp_path: Path) -> None:
    script = tmp_path / "infer.py"
    lines = "import torch", "model = torch.nn.Linear(1000, 1000).cuda()", "with torch.inference_mode():"
    call = "    model(torch.ones(256, 1000, device='cuda'))"
    script.write_text("\n".join([*lines, call]), encoding="utf-8")
    tracker = Tracker(GPUS["a100"])
    with tracked(Variant(""), GPUS["a100"], tracker):
        runpy.run_path(str(script))
    assert (tracker.phase, tracker.line) == ("forward", (str(script), 4))


def test_passes_within_a_step_are_passes() -> None:
    def script() -> None:
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.ReLU()).cuda()
        optimizer = torch.optim.LBFGS(model.parameters())
        data = torch.ones(2**17, 8).cuda()

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(data).mean()
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)

    assert peak(script)["activations"] > 8 * MIB


def test_blocks_are_multiples_of_512_bytes() -> None:
    kept = []
    assert peak(lambda: kept.append(torch.zeros(1, device="cuda")))["inputs and buffers"] == 512
    assert peak(lambda: kept.append(torch.zeros(129, device="cuda")))["inputs and buffers"] == 1024


def test_what_stays_on_the_host_is_not_counted() -> None:
    assert sum(peak(lambda: nn.Linear(512, 512)(torch.ones(8, 512)).sum().backward()).values()) == 0


def test_a_model_of_seven_billion_parameters_takes_no_memory() -> None:
    def train() -> None:
        model = nn.Sequential(*(nn.Linear(16384, 16384, bias=False) for _ in range(26))).cuda()
        model(torch.ones(1, 16384, device="cuda")).sum().backward()

    found = peak(train)
    assert found["parameters"] == 26 * 16384**2 * 4
    assert found["gradients"] == found["parameters"]


def test_tied_parameters_stay_tied_on_the_way_to_the_gpu() -> None:
    def train() -> None:
        first, second = nn.Linear(512, 512, bias=False), nn.Linear(512, 512, bias=False)
        second.weight = first.weight
        optimizer = torch.optim.SGD(first.parameters())
        model = nn.Sequential(first, second).to("cuda")
        assert optimizer.param_groups[0]["params"][0] is model[1].weight
        assert model[1].weight.device.type == "cuda"
        model(torch.ones(1, 512, device="cuda")).sum().backward()
        optimizer.step()

    assert peak(train)["parameters"] == MIB


def test_gradients_of_two_passes_lie_in_the_same_place() -> None:
    def train() -> None:
        model = nn.Linear(1024, 1024, bias=False).cuda()
        for _ in range(2):
            model(torch.ones(1, 1024, device="cuda")).sum().backward()

    found = peak(train)
    assert found["gradients"] == 4 * MIB
    assert found["temporary"] == 4 * MIB


@pytest.mark.parametrize("autocast", ["float16", "bfloat16"])
def test_regions_are_put_where_a_script_has_none(autocast: str) -> None:
    as_it_is, halved = peak("mlp"), peak("mlp", autocast=autocast)
    assert halved["parameters"] == as_it_is["parameters"]

    def forward() -> None:
        model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4))).cuda()
        loss = nn.functional.mse_loss(model(torch.ones(4096, 1024).cuda()), torch.ones(4096, 1024).cuda())
        assert not halving or torch.is_autocast_enabled("cuda")
        loss.backward()
        assert not torch.is_autocast_enabled("cuda")

    halving = False
    whole = peak(forward)["activations"]
    halving = True
    assert peak(forward, autocast=autocast)["activations"] < 0.8 * whole


def test_regions_are_switched_off_and_change_their_dtype() -> None:
    half, whole = peak("cnn")["activations"], peak("cnn", autocast="off")["activations"]
    assert half == pytest.approx(whole / 2, rel=0.01)
    assert peak("cnn", autocast="bfloat16")["activations"] == half


def test_a_region_that_is_off_inside_of_another_stays_off() -> None:
    def forward() -> None:
        model = nn.Linear(64, 64).cuda()
        with torch.autocast("cuda", enabled=False):
            assert model(torch.ones(8, 64).cuda()).dtype == torch.bfloat16
            with torch.autocast("cuda", enabled=False):
                assert model(torch.ones(8, 64).cuda()).dtype == torch.float32

    peak(forward, autocast="bfloat16")


def test_accumulation_divides_batches_and_keeps_gradients() -> None:
    whole, divided = peak("cnn"), peak("cnn", accumulate=4)
    assert divided["activations"] == pytest.approx(whole["activations"] / 4, rel=0.01)
    assert divided["gradients"] == divided["parameters"]


def test_accumulation_needs_a_loader() -> None:
    with pytest.raises(Refused, match="no DataLoader has a batch that can be divided by 4"):
        peak("mlp", accumulate=4)


def test_checkpoints_keep_what_goes_into_blocks() -> None:
    image = 2 * 64 * 128 * 64 * 64
    found = peak("cnn", checkpoint=True)["activations"]
    # The results of the stem and of four blocks, and what one block needs in its backward pass but for its result.
    assert found - 8 * image < 4 * MIB


def test_blocks_are_found_in_lists_of_lists() -> None:
    def train() -> None:
        layers = nn.ModuleList(nn.ModuleList([nn.Sequential(nn.Linear(8, 8)), Feedforward()]) for _ in range(2))
        model = Layers(layers).cuda()
        model(torch.ones(1, 8).cuda()).sum().backward()
        seen.extend(type(module).__name__ for module in model.modules() if "forward" in vars(module))

    seen: list[str] = []
    peak(train, checkpoint=True)
    assert seen == ["Feedforward", "Feedforward"]


class Feedforward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


class Layers(nn.Module):
    def __init__(self, layers: nn.ModuleList) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for first, second in self.layers:
            x = second(first(x))
        return x


@pytest.mark.parametrize("part", [nn.Tanh, lambda: nn.Sequential(nn.Linear(512, 512), nn.Tanh())])
def test_a_long_sequence_runs_again_in_parts(part: Callable[[], nn.Module]) -> None:
    def train() -> None:
        model = nn.Sequential(*(part() for _ in range(9))).cuda()
        model(torch.ones(8192, 512, device="cuda", requires_grad=True)).sum().backward()

    whole, parts = (peak(train, checkpoint=wanted)["activations"] for wanted in (False, True))
    assert whole - parts >= 3 * 16 * MIB


def test_blocks_that_are_attributes_count_where_no_list_has_any() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Feedforward(), Feedforward()

    assert [type(block) for block in repeated(Two())] == [Feedforward, Feedforward]
    assert [type(block) for block in repeated(nn.ModuleList([Two(), Two()]))] == [Two, Two]


def test_what_the_forward_pass_lets_go_of_is_no_activation() -> None:
    def train() -> None:
        x = torch.ones(512, 512, device="cuda", requires_grad=True)
        x.add(1).add(2).add(3).exp().sum().backward()

    assert peak(train)["activations"] // MIB == 1  # the result of exp


def test_what_holds_most_is_told_by_module_and_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    lines = (
        "import torch",
        "from torch import nn",
        "blocks = [nn.Sequential(nn.Linear(512, 512), nn.Tanh()) for _ in 'ab']",
    )
    step = "model(torch.ones(4096, 512, device='cuda')).sum().backward()"
    script.write_text("\n".join([*lines, "model = nn.Sequential(*blocks).cuda()", step]), encoding="utf-8")
    found = estimate(str(script), [], Variant("as it is"), GPUS["a100"])
    assert found.phase == "backward"
    holders = {(each.kind, each.row, each.module): each.size for each in found.holders}
    assert holders["activations", 5, "model.*.*"] == 8 * MIB  # what the first part gives
    assert (found.batch, found.autocast, found.unit) == (4096, "off", 2 * 4 * 512 * 513)


@pytest.mark.parametrize(
    ("made", "autocast"),
    [
        ([], "off"),
        ([{"enabled": False}], "off"),
        ([{"dtype": torch.bfloat16}], "bfloat16"),
        ([{}, {"dtype": torch.float16}], "float16"),
        ([{"dtype": torch.bfloat16}, {"enabled": False}], ""),
        ([{"dtype": torch.bfloat16}, {"dtype": torch.float16}], ""),
    ],
)
def test_which_variant_has_the_regions_of_the_script(made: list[dict[str, Any]], autocast: str) -> None:
    seen = Seen()
    with warnings.catch_warnings(), seeing(seen):
        warnings.simplefilter("ignore")
        with dry_run(GPUS["a100"]):
            for options in made:
                torch.autocast("cuda", **options)
    assert seen.autocast == autocast


def test_optimizers_that_rarely_step_are_waited_for() -> None:
    taken = {"often": 0, "rarely": 0}

    def train() -> None:
        model = nn.Linear(8, 8).cuda()
        often, rarely, _ = (torch.optim.SGD(model.parameters()) for _ in range(3))
        for batch in range(100):
            model(torch.ones(1, 8).cuda()).sum().backward()
            taken["often"] += 1
            often.step()
            if batch % 5 == 4:
                taken["rarely"] += 1
                rarely.step()

    peak(train)
    assert taken == {"often": 12, "rarely": 2}


def test_state_that_a_first_step_makes_is_the_optimizers() -> None:
    def train() -> None:
        model = nn.Linear(512, 512, bias=False).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 512).cuda()).sum().backward()
        optimizer.step()

    found = peak(train)
    assert (found["optimizer"], found["temporary"]) == (2 * MIB, MIB)


def test_checkpoints_need_blocks() -> None:
    with pytest.raises(Refused, match="no model has blocks that repeat"):
        peak("mlp", checkpoint=True)


@pytest.mark.parametrize("changes", [{"accumulate": 4}, {"checkpoint": True}])
def test_what_is_not_trained_has_no_variants_of_training(changes: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        peak(lambda: nn.Linear(8, 8).cuda()(torch.ones(8).cuda()), **changes)


def test_numbers_that_are_not_there_are_plausible() -> None:
    seen: list[Any] = []

    def script() -> None:
        loss = nn.Linear(8, 8).cuda()(torch.ones(4, 8).cuda()).mean()
        seen.extend([loss.item(), float(loss), f"{loss:.2f}", loss.cpu().detach().numpy().tolist()])
        seen.extend([bool(torch.isfinite(loss)), bool(torch.isnan(loss)), bool(loss > 0), loss.tolist()])
        seen.append(int(nn.Linear(8, 8).cuda()(torch.ones(8).cuda()).argmax()))
        assert (nn.Linear(8, 8).cuda()(torch.ones(8).cuda()) >= 0).all()

    peak(script)
    assert seen == [1.0, 1.0, "1.00", 1.0, True, False, False, 1.0, 0]


def test_scalers_step_and_keep_their_scale() -> None:
    scales = []

    def script() -> None:
        model = nn.Linear(8, 8).cuda()
        optimizer, scaler = torch.optim.SGD(model.parameters()), torch.amp.GradScaler("cuda")
        scaler.scale(model(torch.ones(4, 8).cuda()).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())

    peak(script)
    assert scales == [65536.0]


def test_shapes_that_depend_on_values_are_refused() -> None:
    def script() -> None:
        result = nn.Linear(8, 8).cuda()(torch.ones(8).cuda())
        assert len(result[torch.arange(8, device="cuda") > 2]) == 5
        result[result > 0]

    with pytest.raises(Refused, match="how large the result of index is depends on values"):
        peak(script)


def test_data_is_saved_and_models_are_not(tmp_path: Path) -> None:
    def script() -> None:
        model = nn.Linear(8, 8).cuda()
        torch.save(model, tmp_path / "model.pt")
        torch.save({"model": model.state_dict(), "epoch": 3}, tmp_path / "checkpoint.pt")
        torch.save({"images": torch.ones(4), "names": ["a", "b"]}, tmp_path / "data.pt")
        assert torch.load(tmp_path / "data.pt")["images"].sum() == 4

    peak(script)
    assert [path.name for path in tmp_path.iterdir()] == ["data.pt"]


def test_distributions_take_what_has_no_numbers() -> None:
    def script() -> None:
        torch.distributions.Categorical(logits=nn.Linear(8, 4).cuda()(torch.ones(2, 8).cuda())).sample()

    peak(script)


@pytest.mark.parametrize(("options", "buckets"), [({}, MIB), ({"gradient_as_bucket_view": True}, 0)])
def test_parallel_models_have_buckets_for_gradients(options: dict[str, bool], buckets: int) -> None:
    def train() -> None:
        model = nn.parallel.DistributedDataParallel(nn.Linear(512, 512, bias=False).cuda(), **options)
        for _ in range(2):
            model(torch.ones(1, 512).cuda()).sum().backward()

    found = peak(train)
    assert found["gradients"] == MIB
    assert found["temporary"] == MIB
    assert found["inputs and buffers"] - buckets == 2048


def test_a_group_of_processes_has_one_member_and_no_port() -> None:
    def script() -> None:
        distributed.init_process_group("nccl", init_method="tcp://127.0.0.1:1", rank=1, world_size=8)
        made = nn.Linear(8, 8).cuda()(torch.ones(1, 8).cuda())
        assert distributed.get_world_size() == 1
        for exchange in (
            lambda: distributed.all_reduce(made, async_op=True).wait(),
            lambda: distributed.broadcast(made, 0),
            lambda: distributed.reduce(made, 0),
            lambda: distributed.all_gather([torch.empty_like(made)], made),
            lambda: distributed.all_gather_into_tensor(torch.empty_like(made), made),
            lambda: distributed.reduce_scatter_tensor(torch.empty_like(made), made),
            lambda: distributed.all_to_all_single(torch.empty_like(made), made, [1], [1]),
            lambda: distributed.all_reduce_coalesced([made]),
            lambda: distributed.nn.functional.all_reduce(made).sum().backward(),
            distributed.barrier,
        ):
            exchange()
        objects = [None]
        distributed.all_gather_object(objects, {"epoch": 3})
        assert objects == [{"epoch": 3}]
        distributed.destroy_process_group()

    peak(script)


def test_copies_of_models_are_models() -> None:
    def script() -> None:
        import copy

        model = nn.Linear(512, 512, bias=False).cuda()
        copied = copy.deepcopy(model)
        assert isinstance(copied.weight, nn.Parameter)
        assert copied.weight.is_cuda
        (model(torch.ones(1, 512).cuda()) + copied(torch.ones(1, 512).cuda())).sum().backward()

    assert peak(script)["parameters"] == 2 * MIB


def test_averages_of_parameters_and_what_was_loaded_are_no_activations(tmp_path: Path) -> None:
    saved = tmp_path / "weights.pt"
    torch.save(torch.ones(512, 512), saved)

    def script() -> None:
        model = nn.Linear(512, 512, bias=False).cuda()
        averages = [parameter.detach().clone() for parameter in model.parameters()]
        loaded = torch.load(saved, map_location="cuda")
        model(torch.ones(1, 512).cuda()).sum().backward()
        assert averages[0].shape == loaded.shape

    found = peak(script)
    assert found["inputs and buffers"] == 2 * MIB + 2048
    assert found["activations"] <= 2048 + 512


def test_packed_sequences_are_as_long_as_they_are() -> None:
    def script() -> None:
        lengths = torch.tensor([3, 64, 20])
        padded = torch.randn(3, 64, 8).cuda().requires_grad_()
        packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
        assert (packed.data.shape, packed.data.is_cuda) == ((87, 8), True)
        assert (packed.batch_sizes.is_cuda, packed.batch_sizes[[0, 2, 3, 20]].tolist()) == (False, [3, 3, 2, 1])
        result, _ = nn.LSTM(8, 32, bidirectional=True).cuda()(packed)
        unpacked, sizes = pad_packed_sequence(result, batch_first=True)
        assert (unpacked.shape, sizes.tolist()) == ((3, 64, 64), [3, 64, 20])
        unpacked.sum().backward()
        assert padded.grad is not None
        assert padded.grad.shape == padded.shape

    assert peak(script)["parameters"] == 2 * 4 * 4 * 32 * (8 + 32 + 2)


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scripts run in forks of a process that has PyTorch loaded."""

    @contextlib.contextmanager
    def started(command: list[str], stderr: BinaryIO, **_: object) -> Iterator[SimpleNamespace]:
        ran = python(Path.cwd(), os.environ, *command[1:])
        stderr.write(ran.stderr.encode())
        yield SimpleNamespace(stdout=ran.stdout.encode().splitlines(), returncode=ran.returncode)

    pipes = {"DEVNULL": subprocess.DEVNULL, "PIPE": subprocess.PIPE}
    monkeypatch.setattr(estimating, "subprocess", SimpleNamespace(Popen=started, **pipes))


def test_the_command_tells_peaks_and_reasons(amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amplint.cli.memory.variants", lambda batches: [*variants(batches)[:5:4]])
    (project / "train.py").write_text((TRAINED / "mlp.py").read_text(encoding="utf-8"), encoding="utf-8")
    done = amplint("memory", "--gpu", "t4", "--output-format", "json", "train.py")
    assert done.status == 0, done.err
    found = {each["variant"]: each for each in json.loads(done.out)}
    assert set(found["as it is"]["peak"]) == set(KINDS)
    assert (found["as it is"]["phase"], found["as it is"]["row"]) == ("optimizer", 13)
    assert found["as it is"]["total"] == sum(found["as it is"]["peak"].values())
    assert found["accumulate 4"]["refused"].startswith("no DataLoader")


@pytest.mark.usefixtures("forked")
def test_the_tracer_has_it_as_an_option(amplint: Command, project: Path) -> None:
    (project / "train.py").write_text("import sys\nraise ValueError(sys.argv[1])\n", encoding="utf-8")
    (project / "inspect.py").write_text("raise SystemExit('the wrong module')\n", encoding="utf-8")
    done = amplint("trace", "--memory", "train.py", "--epochs")
    assert done.status == 2
    assert (done.out, done.err) == ("", "Error: train.py: ValueError: --epochs (train.py:2)\n")


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("sys.exit(3)", "the script ended with status 3"),
        ("sys.exit('no data')", "the script ended by saying: no data"),
        ("os._exit(5)", "the process ended with status 5"),
    ],
)
def test_a_script_that_ends_early_gets_no_table(amplint: Command, project: Path, line: str, why: str) -> None:
    (project / "train.py").write_text(f"import os, sys\n{line}\n", encoding="utf-8")
    done = amplint("memory", "train.py")
    assert (done.status, done.out, done.err) == (2, "", f"Error: train.py: {why}\n")


@pytest.mark.usefixtures("forked")
def test_all_variants_draw_the_same_numbers(amplint: Command, project: Path) -> None:
    lines = "import random, numpy, torch", "n = random.random(), numpy.random.rand(), torch.rand(1).item()"
    (project / "train.py").write_text("\n".join([*lines, "raise SystemExit(str(n))"]), encoding="utf-8")
    first, second = (amplint("memory", "train.py").err for _ in range(2))
    assert "by saying: (0." in first
    assert first == second


@pytest.mark.usefixtures("forked")
def test_variants_are_forks_of_one_process_and_regions_that_are_the_same_are_not_run_again(
    amplint: Command, project: Path
) -> None:
    lines = "import os, torch", "open('runs', 'a').write(f'{os.getppid()}\\n')", "torch.ones(2**20, device='cuda')"
    (project / "train.py").write_text("\n".join(lines), encoding="utf-8")
    done = amplint("memory", "train.py")
    assert 'float32        the same as "as it is"' in done.out, done.err
    runs = (project / "runs").read_text(encoding="utf-8").split()
    assert (len(runs), len({*runs})) == (5, 1)


def test_an_option_that_does_not_exist_is_no_script(amplint: Command) -> None:
    done = amplint("memory", "--epochs", "train.py")
    assert (done.status, done.out) == (2, "")
    assert "No such option '--epochs'" in done.err


def test_a_script_and_a_number_of_parameters_exclude_each_other(amplint: Command) -> None:
    done = amplint("memory", "--parameters", "7B", "train.py")
    assert (done.status, done.out) == (2, "")
    assert "Give either a script or --parameters." in done.err


@pytest.mark.parametrize("option", ["--compare-float32", "--steps=2", "--numerics=full", "--quiet"])
def test_memory_goes_with_few_options(amplint: Command, option: str) -> None:
    done = amplint("trace", "--memory", option, "train.py")
    assert (done.status, done.out) == (2, "")
    assert "--memory goes with" in done.err


def test_accumulation_goes_with_memory_only(amplint: Command) -> None:
    done = amplint("trace", "--accumulate", "2", "train.py")
    assert (done.status, done.out) == (2, "")
    assert "--accumulate goes with --memory only" in done.err


@pytest.mark.usefixtures("forked")
def test_a_module_that_is_not_there_is_named_once(amplint: Command) -> None:
    done = amplint("trace", "--memory", "-m", "nothing_of_the_kind")
    assert (done.status, done.err) == (2, "Error: nothing_of_the_kind: no such module\n")


def test_no_script_is_no_traceback(amplint: Command) -> None:
    done = amplint("memory", "missing.py")
    assert (done.status, done.out) == (2, "")
    assert "missing.py: no such file" in done.err
