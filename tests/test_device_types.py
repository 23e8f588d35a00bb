"""Device types of regions and scalers: what is told of them, and what PyTorch does."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.findings import Finding, Severity
from amplint.torchlib.names import AUTOCAST_DEVICES, CUDA_ALONE, NO_CONTEXTS
from tests.linting import findings_of

RULES = tuple(rule for code, rule in load_registry().rules.items() if code in ("AMP106", "AMP107"))
RUN = """
import torch

def run(net, x, device, flag):
    net = net.to(device)
    {before}
    with {region}:
        return net(x.to(device))
"""
TEXT = """
import torch

def run(net, x, device, options):
    {before}
    with torch.autocast({kind}, dtype=torch.bfloat16):
        return net(x)
"""
FEATURES = """
import torch
from torch import nn

class Features(nn.Module):
    def __init__(self, net, autocast_region):
        super().__init__()
        self.net, self.autocast_region = net, autocast_region

    def forward(self, x):
        with torch.inference_mode():
            with self.autocast_region():
                return self.net(x)
"""
EVALUATION = """
from functools import partial
import torch
from features import Features

def evaluate(net, x, dtype):
    region = partial(torch.cuda.amp.autocast, enabled=True, dtype=dtype)
    features = Features(net, region)
    return features(x.cuda())
"""
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR


def lint(program: str, version: str | None = None) -> list[Finding]:
    asked = frozenset(rule.code for rule in RULES)
    return findings_of(program, RULES, torch=version, asked=asked)


def told(program: str) -> list[tuple[str, Severity]]:
    return [(finding.code, finding.severity) for finding in lint(textwrap.dedent(program))]


ALONE = [
    'torch.autocast("cuda")',
    'torch.autocast("mps", dtype=torch.float16)',
    "torch.cuda.amp.autocast()",
    'torch.amp.autocast(device_type="cuda", enabled=flag)',
]
NOT_ALONE = [
    "torch.autocast(device.type)",
    'torch.autocast("cuda", enabled=device.type == "cuda")',
    'torch.autocast("cuda", enabled=torch.cuda.is_available())',
    'torch.autocast("cuda" if flag else "cpu")',
]


@pytest.mark.parametrize("region", ALONE)
def test_a_region_for_one_type_is_told_where_the_device_is_given(region: str) -> None:
    assert told(RUN.format(before="", region=region)) == [("AMP106", INFO)]


@pytest.mark.parametrize("region", NOT_ALONE)
def test_a_region_that_asks_for_the_device_is_not(region: str) -> None:
    assert told(RUN.format(before="", region=region)) == []


@pytest.mark.parametrize(
    "before",
    [
        "assert torch.cuda.is_available()",
        "x = x.cuda()",
        'if device.type != "cuda": return net(x)',
        "torch.cuda.set_device(0)",
        "torch.cuda.synchronize()",
        "torch.cuda.reset_peak_memory_stats()",
        "state = torch.cuda.get_rng_state()",
        'net = AutoModel.from_pretrained("llm", attn_implementation="flash_attention_2")',
    ],
)
def test_nothing_is_told_where_only_cuda_comes_so_far(before: str) -> None:
    assert told(RUN.format(before=before, region='torch.autocast("cuda")')) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="it raises where there is no CUDA")
@pytest.mark.filterwarnings("ignore:torch.cuda.reset_max_memory_allocated")
@pytest.mark.parametrize("name", sorted(CUDA_ALONE))
def test_what_needs_cuda_raises_elsewhere(name: str) -> None:
    arguments: tuple[object, ...] = {"set_device": (0,), "set_per_process_memory_fraction": (0.5,)}.get(name, ())
    with pytest.raises((AssertionError, AttributeError, KeyError, RuntimeError)):
        getattr(torch.cuda, name)(*arguments)


OFF = """
import torch
{before}

def distances(points, others, device):
    {guard}
    with torch.autocast("cuda", enabled=False):
        return points.float() @ others.float().t()
{after}
"""


def test_a_region_that_is_off_on_cuda_alone_protects_nothing_elsewhere() -> None:
    assert told(OFF.format(before="", guard="pass", after="")) == [("AMP106", INFO)]


@pytest.mark.parametrize(
    ("before", "guard", "after"),
    [
        ("import triton", "pass", ""),
        ("", 'if device.type != "cuda": return torch.cdist(points, others)', ""),
        ("", "points = points.cuda()", ""),
        ("", "pass", "def train(loss): loss.backward()"),
    ],
    ids=["kernels", "condition", "moved to CUDA", "trains"],
)
def test_it_may_protect_all_where_only_cuda_comes_so_far(before: str, guard: str, after: str) -> None:
    found = lint(textwrap.dedent(OFF.format(before=before, guard=guard, after=after)))
    assert not [finding for finding in found if "switches autocast off" in finding.message]


INDEXED = """
import torch

def run(net, x, rank, local):
    device = {text}
    with torch.autocast(device):
        return net(x.to(device))
"""


@pytest.mark.parametrize(
    "text",
    [
        'f"cuda:{rank}"',
        'f"cuda:{rank}" if local else "cuda"',
        '"cuda:" + str(rank)',
        '"cuda:%d" % rank',
        '"cuda:{}".format(rank)',
        "str(local.device or rank)",
    ],
)
def test_the_text_of_a_device_can_hold_an_index(text: str) -> None:
    assert ("AMP107", INFO) in told(INDEXED.format(text=text))


@pytest.mark.parametrize("text", ['f"{rank}"', 'f"cuda{rank}"', 'str(torch.device("cuda", rank)).split(":")[0]'])
def test_a_text_without_an_index_is_not_told(text: str) -> None:
    assert "AMP107" not in dict(told(INDEXED.format(text=text)))


ANNOTATED = """
import torch

class Settings:
    device: {kind}

class Predictor:
    def __init__(self, settings: Settings, device: {kind}):
        self.settings, self.device = settings, device

    def first(self, net, x):
        with torch.autocast(self.settings.device):
            return net(x)

    def second(self, net, x):
        with torch.autocast(self.device):
            return net(x)
"""


def test_an_annotation_tells_what_a_device_is() -> None:
    assert told(ANNOTATED.format(kind="torch.device")) == [("AMP107", Severity.ERROR)] * 2


@pytest.mark.parametrize("kind", ["str", "str | torch.device", "torch.device | str", "Device"])
def test_an_annotation_that_allows_a_text_does_not(kind: str) -> None:
    assert told(ANNOTATED.format(kind=kind)) == []


def test_a_flag_may_ask_for_the_device() -> None:
    program = """
        import torch

        class Trainer:
            def __init__(self, net, device, half):
                self.device = device
                self.net = net.to(device)
                self.half = half and device.type == "cuda"

            @property
            def on_cuda(self):
                return self.device.type == "cuda"

            def run(self, x):
                with torch.autocast("cuda", enabled=self.half):
                    return self.net(x.to(self.device))

            def skim(self, x):
                if self.on_cuda:
                    with torch.autocast("cuda"):
                        return self.net(x.to(self.device))
                return self.net(x.to(self.device))
    """
    assert told(program) == []


@pytest.mark.parametrize(
    "device",
    ['self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")', "self.device = options.device"],
)
def test_a_decorator_is_for_its_function(device: str) -> None:
    program = f"""
        import torch

        class Reader:
            def __init__(self, net, options):
                {device}
                self.net = net.to(self.device)

            @torch.autocast("cuda")
            def read(self, x):
                return self.net(x.to(self.device))
    """
    assert told(program) == [("AMP106", INFO)]
    assert (
        told(program.replace('if torch.cuda.is_available() else "cpu"', "").replace("options.device", '"cuda"')) == []
    )


def test_a_scaler_is_told_where_no_region_is() -> None:
    made = """
        import torch

        def build(net, device):
            net.to(device)
            {region}
            return torch.amp.GradScaler("cuda")
    """
    assert told(made.format(region="")) == [("AMP106", INFO)]
    both = made.format(region='net = torch.autocast("cuda")(net)')
    assert [finding.span.start.row for finding in lint(textwrap.dedent(both))] == [6]


@pytest.mark.parametrize(
    "kind",
    [
        "str(device)",
        'str(device).replace(":0", "")',
        'str(options["device"])',
        "str(options.device)",
    ],
)
def test_the_text_of_a_device_is_told_for_any_version(kind: str) -> None:
    program = TEXT.format(before="", kind=kind)
    assert told(program) == [("AMP107", INFO)]
    assert lint(program, "2.5") == []
    assert told(TEXT.format(before=f"kind = {kind}", kind="kind")) == [("AMP107", INFO)]


CHOSEN_TEXT = """
import torch


class Synthesizer:
    def __init__(self, net, device=None):
        if device is not None:
            self.device = device
        elif torch.cuda.is_available():
            self.device = {first}
        else:
            self.device = "cpu"
        self.net = net.to(self.device)

    def run(self, x):
        with torch.amp.autocast(self.device):
            return self.net(x)
"""


def test_a_text_that_one_branch_gives_an_index_is_told() -> None:
    assert told(CHOSEN_TEXT.format(first='"cuda:0"')) == [("AMP107", INFO)]
    assert told(CHOSEN_TEXT.format(first='"cuda"')) == []


FLOAT16 = """
import torch


def run(options, net, x):
    with torch.autocast({device}, dtype={dtype}, enabled=options.mixed):
        return net(x)
"""


def test_float16_for_whatever_device_is_told() -> None:
    assert told(FLOAT16.format(device="options.device", dtype="torch.float16")) == [("AMP106", INFO)]
    assert told(FLOAT16.format(device="options.device", dtype="torch.bfloat16")) == []
    assert told(FLOAT16.format(device="options.device", dtype="options.dtype")) == []


def test_the_device_of_what_forward_is_given_is_no_type() -> None:
    program = """
        import torch

        class Attention(torch.nn.Module):
            def {name}(self, x):
                with torch.autocast(x.device, enabled=False):
                    return self.project(x)
    """
    assert ("AMP107", WARNING) in told(program.format(name="forward"))
    assert told(program.format(name="configure")) == []


@pytest.mark.parametrize("kind", ['str(device).split(":")[0]', "device.type", "str(options.kind)", "options.device"])
def test_a_type_is_not(kind: str) -> None:
    assert told(TEXT.format(before="", kind=kind)) == []


@pytest.mark.parametrize(
    ("kind", "severity"),
    [("net.device", WARNING), ("options.net.device", None), ("next(net.parameters()).device", ERROR)],
)
def test_the_device_of_what_is_called_is_no_type(kind: str, severity: Severity | None) -> None:
    assert told(TEXT.format(before="", kind=kind)) == ([("AMP107", severity)] if severity else [])


def test_a_region_is_called_only_to_decorate() -> None:
    for call, count in {"region()": 1, "region(net)(x)": 0}.items():
        found = told(f"import torch\n\ndef run(net, x):\n    region = torch.autocast('cpu')\n    {call}\n")
        assert found == [("AMP106", ERROR)] * count


def test_a_scaler_has_no_device_type() -> None:
    with pytest.raises(TypeError, match="device_type"):
        torch.amp.GradScaler(device_type="cpu")  # type: ignore[call-arg]


@pytest.mark.parametrize("device", sorted(AUTOCAST_DEVICES - {"cuda"}))
def test_float32_is_switched_off_on_all_devices_but_cuda(device: str) -> None:
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling autocast"):
        torch.autocast(device, dtype=torch.float32)


SETTINGS: dict[str, Callable[[], object]] = {
    "torch.set_default_dtype": lambda: torch.set_default_dtype(torch.float32),
    "torch.set_default_tensor_type": lambda: torch.set_default_tensor_type(torch.FloatTensor),
    "torch.set_default_device": lambda: torch.set_default_device(None),
    "torch.set_autocast_enabled": lambda: torch.set_autocast_enabled("cpu", False),
    "torch.set_autocast_dtype": lambda: torch.set_autocast_dtype("cpu", torch.bfloat16),
    "torch.set_autocast_cache_enabled": lambda: torch.set_autocast_cache_enabled(True),
    "torch.set_float32_matmul_precision": lambda: torch.set_float32_matmul_precision("highest"),
    "torch.manual_seed": lambda: torch.manual_seed(0),
    "torch.use_deterministic_algorithms": lambda: torch.use_deterministic_algorithms(False),
    "torch.cuda.set_device": lambda: torch.cuda.set_device(-1),
}


def test_settings_return_no_context() -> None:
    assert SETTINGS.keys() == NO_CONTEXTS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not any(hasattr(setting(), "__enter__") for setting in SETTINGS.values())


def test_a_flag_may_stand_in_another_file_than_the_call(tmp_path: Path) -> None:
    (tmp_path / "features.py").write_text(FEATURES)
    program = tmp_path / "program.py"
    program.write_text(EVALUATION)
    found = findings_of(program.read_bytes(), (), RULES, path=str(program))
    assert "AMP003" not in {finding.code for finding in found}


BY_VERSION = """
import torch
from versions import NEW_ENOUGH

if NEW_ENOUGH:
    from torch import autocast
else:
    from torch.cuda.amp import autocast

def region(kind):
    if NEW_ENOUGH:
        return autocast({given})
    return autocast()
"""


@pytest.mark.parametrize("given", ["kind", "kind, dtype=torch.half", "device_type=kind", "'cuda'"])
def test_the_call_of_an_older_class_beside_that_of_a_newer_one_needs_no_type(given: str) -> None:
    assert "AMP107" not in {finding.code for finding in lint(BY_VERSION.format(given=given))}


@pytest.mark.parametrize("given", ["", "True", "enabled=kind"])
def test_two_calls_without_a_type_raise(given: str) -> None:
    assert ("AMP107", ERROR) in told(BY_VERSION.format(given=given))


OFF_FOR_CUDA = """
{kernels}
import torch

def best():
    return "mps" if torch.backends.mps.is_available() else "cpu"

def distances(points, others):
    with torch.cuda.amp.autocast(enabled=False):
        return points.float() @ others.float()
"""
OPTIONAL = "try:\n    import flash_attn\nexcept ImportError:\n    flash_attn = None"


def test_deprecated_regions_switched_off_for_cuda_alone_are_told_where_no_kernels_need_it() -> None:
    assert told(OFF_FOR_CUDA.format(kernels=OPTIONAL)) == told(OFF_FOR_CUDA.format(kernels="")) == [("AMP106", INFO)]
    assert told(OFF_FOR_CUDA.format(kernels="import flash_attn")) == []
    layer = OFF_FOR_CUDA.format(kernels="").replace('"mps" if torch.backends.mps.is_available() else "cpu"', "None")
    assert told(layer) == [("AMP106", INFO)]


@pytest.mark.parametrize("decorator", ['torch.autocast("cuda", dtype=torch.float32)', "torch.cuda.amp.autocast(False)"])
def test_a_region_of_cuda_that_keeps_float32_is_told_like_one_that_is_off(decorator: str) -> None:
    layer = f"import torch\n\n@{decorator}\ndef turned(x, angles):\n    return x * angles.cos()\n"
    assert [(code, severity) for code, severity in told(layer) if code == "AMP106"] == [("AMP106", INFO)]


SUPPOSED = """
import torch
{before}

class Fitting:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.scaler = torch.cuda.amp.GradScaler()

    def step(self, x):
        {inside}
        with torch.autocast({region}):
            loss = self.model(x).sum()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""


@pytest.mark.parametrize(
    ("before", "inside", "region", "count"),
    [
        ("", "pass", '"cuda"', 2),
        ("", "pass", "x.device.type", 1),
        ("", "x = x.cuda()", '"cuda"', 0),
        ("device = 'cuda:0'", "pass", '"cuda"', 0),
        ("import flash_attn", "pass", '"cuda"', 0),
        ("torch.cuda.set_device(0)", "pass", '"cuda"', 0),
        ("", "pass", '"cuda" if torch.cuda.is_available() else "cpu"', 2),
    ],
)
def test_work_from_outside_can_be_on_any_device(before: str, inside: str, region: str, count: int) -> None:
    found = lint(SUPPOSED.format(before=before, inside=inside, region=region))
    assert [finding.code for finding in found].count("AMP106") == count


def test_what_a_function_is_given_counts_where_another_one_needs_cuda() -> None:
    program = """
        import torch

        def report():
            torch.cuda.synchronize()

        def run(net, x, device):
            if device.type != "cpu":
                with torch.autocast("cuda"):
                    return net(x.to(device))
            return net(x.to(device))
    """
    assert told(program) == [("AMP106", INFO)]
    assert told(program.replace('device.type != "cpu"', 'device.type == "cuda"')) == []


LISTED = """
import torch

def run(net, x, device_type):
    {before}
    with torch.autocast({kind}, dtype=torch.bfloat16):
        return net(x)
"""


@pytest.mark.parametrize(
    ("before", "kind", "count"),
    [
        ("pass", 'device_type if device_type in ["cuda", "xpu"] else "cpu"', 1),
        ('kind = device_type if device_type in ("cuda", "mps") else "cpu"', "kind", 1),
        ("pass", 'device_type if device_type in ["cuda", "xpu"] else "cuda"', 0),
        ("pass", 'device_type if device_type != "mps" else "cpu"', 0),
        ("pass", "device_type", 0),
    ],
)
def test_a_list_of_devices_leaves_others_to_the_cpu(before: str, kind: str, count: int) -> None:
    findings = lint(LISTED.format(before=before, kind=kind))
    assert [(finding.code, finding.severity) for finding in findings] == [("AMP106", INFO)] * count


BESIDE = """
import torch

kind = torch.device("cuda" if torch.cuda.is_available() else "cpu").type
dtype = "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
model = torch.nn.Linear(4, 4)
region = torch.autocast({region})
scaler = torch.cuda.amp.GradScaler(enabled={enabled})
"""


@pytest.mark.parametrize(
    ("region", "enabled", "count"),
    [
        ("device_type=device_type", 'dtype == "float16"', 1),
        ("device.type", "half", 1),
        ("device.type", 'device.type == "cuda"', 0),
        ('"cuda"', 'dtype == "float16"', 0),
    ],
)
def test_a_scaler_for_cuda_beside_regions_for_any_device(region: str, enabled: str, count: int) -> None:
    assert [code for code, _ in told(BESIDE.format(region=region, enabled=enabled))].count("AMP106") == count


def test_an_input_is_no_device() -> None:
    program = """
        import torch

        def run(net, inputs, device):
            if "mask" in inputs:
                with torch.autocast("cuda"):
                    return net(inputs["mask"].to(device))
    """
    assert told(program) == [("AMP106", INFO)]


SET_BY_DEVICE = """
    import torch

    class Trainer:
        def __init__(self, net, device, options):
            self.device = torch.device(device)
            self.net = net.to(self.device)
            {setting}

        def step(self, x):
            if self.mixed:
                with torch.autocast(device_type="cuda", dtype=torch.float16):
                    return self.net(x.to(self.device))
            return self.net(x.to(self.device))
"""
BY_BRANCH = """
            if self.device.type == "cuda":
                self.mixed = True
            else:
                self.mixed = False
"""
BY_EXPRESSION = """
            on_gpu = self.device.type == "cuda"
            self.mixed = (
                options.mixed
                and on_gpu
            )
"""


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        (BY_BRANCH, []),
        (BY_EXPRESSION, []),
        (BY_BRANCH.replace('self.device.type == "cuda"', "options.mixed"), [("AMP106", INFO)]),
        ("self.mixed = options.mixed", [("AMP106", INFO)]),
    ],
)
def test_an_attribute_that_is_on_where_the_file_asks_for_the_device(setting: str, found: list[object]) -> None:
    assert told(SET_BY_DEVICE.format(setting=setting.strip())) == found


GIVEN_BY_CALLERS = """
    import torch

    def train(model, batches, device):
        for x in batches:
            with torch.autocast("cuda"):
                model(x.to(device)).mean().backward()

    def main(local_rank, options, model, batches):
        device = "cpu" if options.cpu else options.device
        train(model, batches, {given})
"""


@pytest.mark.parametrize(
    ("given", "chosen"),
    [("device=local_rank", False), ("local_rank", False), ("0", False), ("device=device", True)],
)
def test_the_device_that_all_callers_give(given: str, chosen: bool) -> None:
    messages = [finding.message for finding in lint(textwrap.dedent(GIVEN_BY_CALLERS.format(given=given)))]
    assert [message.endswith("its work is given `device`") for message in messages] == [True] * chosen


IN_A_SUBCLASS = """
import torch

class Runner:
    def __init__(self, net, device, half):
        self.device = device
        self.net = net.to({device})
        self.region = torch.cuda.amp.autocast

class Scorer(Runner):
    def score(self, batch):
        with self.region():
            return self.net(batch)
"""


def test_the_device_of_a_base_class_is_that_of_the_work() -> None:
    (finding,) = lint(IN_A_SUBCLASS.format(device="self.device"))
    assert (finding.code, finding.severity) == ("AMP106", INFO)
    assert "`self.device`" in finding.message
    assert lint(IN_A_SUBCLASS.format(device='"cuda"')) == []


@pytest.mark.parametrize(("test", "expected"), [("first >= steps", [("AMP106", INFO)]), ("count < 1", [])])
def test_a_comparison_of_numbers_is_about_devices_only_if_one_counts_them(
    test: str, expected: list[tuple[str, Severity]]
) -> None:
    before = f"""
        held = torch.load("net.pt", map_location="cpu")
        first = held.first
        count = torch.cuda.device_count()
        if {test}:
            return net
"""
    program = textwrap.dedent(RUN).replace("    {before}\n", before.replace("\n    ", "\n"))
    assert told(program.format(region='torch.autocast("cuda")')) == expected


def test_a_function_that_is_returned_is_run() -> None:
    program = """
        import torch

        def region_of(name):
            if name == "bfloat16":
                return lambda: torch.autocast("cuda", dtype=torch.bfloat16)
            return None
    """
    assert told(program) == [("AMP106", INFO)]


REPLACED = """
import torch

def run(net, x, args):
    if args.device == "cuda" and not torch.cuda.is_available():
        args.device = "cpu"
    net = net.to(args.device)
    with torch.autocast("cuda"):
        return net(x.to(args.device))
"""


def test_a_device_that_is_replaced_without_cuda_is_not_the_only_one() -> None:
    job = Job("script.py", "script.py", REPLACED.encode(), RULES)
    assert all(found.severity is Severity.INFO for found in analyse(job, Modules()).findings)


def test_leaving_mps_out_leaves_the_cpu() -> None:
    """A condition for MPS alone does not keep its other branch, or what follows a return, to CUDA."""
    branches = """
        import torch
        from contextlib import nullcontext

        def run(net, x, device):
            net, x = net.to(device), x.to(device)
            if device.type == "mps":
                return net(x)
            with torch.autocast("cuda"):
                return net(x)

        def sample(net, x, device):
            region = nullcontext() if torch.backends.mps.is_available() else torch.autocast("cuda")
            with region:
                return net.to(device)(x.to(device))
    """
    assert told(branches) == [("AMP106", INFO)] * 2
    assert told(branches.replace('device.type == "mps"', "device.type != 'cuda'"))[1:] == []


def test_the_device_of_a_module_is_that_of_the_program() -> None:
    program = """
        import torch
        import toolkit

        def run(net, x):
            with torch.autocast("cuda"):
                return net(x.to(toolkit.device))
    """
    assert told(program) == [("AMP106", INFO)]


def test_a_parameter_is_a_device_that_work_is_given() -> None:
    program = """
        import torch

        def run(net, x, device: torch.device):
            with torch.autocast("cuda"):
                return net(x)
    """
    assert [finding.message for finding in lint(textwrap.dedent(program))] == [
        "this region is for cuda alone, but its work is given `device`"
    ]


def test_a_setting_beside_a_device_is_not_about_devices() -> None:
    program = """
        import torch

        def run(net, x, device, args):
            args.device = "cuda" if torch.cuda.is_available() else "cpu"
            guided = args.scale != 1.0
            if guided:
                with torch.autocast("cuda"):
                    return net(x.to(device))
    """
    assert told(program) == [("AMP106", INFO)]


def test_an_optional_accelerator_can_be_missing() -> None:
    program = """
        import accelerate
        import torch
        from typing import Optional

        def run(net, x, device, accelerator: Optional[accelerate.Accelerator]):
            if accelerator:
                with accelerator.autocast():
                    return net(x)
            with torch.autocast("cuda"):
                return net(x)
    """
    assert told(program) == [("AMP106", INFO)]


PASSED_ON = """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"

    def run(net, batches, other):
        net = net.to(device)

        def measure(net, batches, device{default}):
            return collect(net, batches, device)

        def collect(net, batches, device):
            found = []
            for x in batches:
                x = x.to(device)
                with torch.autocast("cuda"):
                    found.append(net(x))
            return found

        return measure({given})
"""


@pytest.mark.parametrize(
    ("default", "given", "count"),
    [
        ('="cuda"', "net, batches", 0),
        ('="cuda:0"', "net, batches=batches", 0),
        ("", 'net, batches, "cuda"', 0),
        ('="cuda"', "net, batches, other", 1),
        ('="cuda"', "net, batches, device=device", 1),
        ('="cuda"', "net, *batches", 1),
        ('="cpu"', "net, batches", 1),
        ("=None", "net, batches", 1),
    ],
)
def test_a_device_that_callers_pass_on(default: str, given: str, count: int) -> None:
    assert told(PASSED_ON.format(default=default, given=given)) == [("AMP106", INFO)] * count


DEFAULT_OF_A_METHOD = """
    import torch

    class Meter:
        def {name}(self, net, x, device="cuda"):
            x = x.to(device)
            with torch.autocast("cuda"):
                return net(x)

        def report(self, net, other, x, where):
            return {call}
"""


@pytest.mark.parametrize(
    ("name", "call", "count"),
    [
        ("score", "self.score(net, x)", 0),
        ("score", "self.score(net, x, where)", 1),
        ("step", "other.step(net)", 1),
    ],
)
def test_a_device_by_the_default_of_a_method(name: str, call: str, count: int) -> None:
    assert told(DEFAULT_OF_A_METHOD.format(name=name, call=call)) == [("AMP106", INFO)] * count


LIGHTNING = """
    import torch
    {imported}

    class Denoiser({prefix}LightningModule):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def training_step(self, batch, index):
            level = torch.rand(len(batch)).to(self.device)
            with torch.autocast("cuda", dtype=torch.float16):
                return self.net(batch, level).mean()

    def main(net, loader, options):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        print(f"on {{device}}")
        {made}.fit(Denoiser(net), loader)
"""
PL = "import pytorch_lightning as pl"


@pytest.mark.parametrize(
    ("imported", "made", "count"),
    [
        (PL, 'pl.Trainer(devices=2, accelerator="gpu", strategy="ddp")', 0),
        (PL, 'pl.Trainer(accelerator="cuda")', 0),
        (PL, "pl.Trainer(gpus=1)", 0),
        (PL, "pl.Trainer(gpus=-1)", 0),
        (PL, "pl.Trainer(gpus=[0, 1])", 0),
        (PL, 'pl.Trainer(gpus="0,1")', 0),
        (PL, 'pl.Trainer.from_argparse_args(options, accelerator="gpu")', 0),
        ("import lightning as pl", 'pl.Trainer(accelerator="gpu")', 0),
        ("import lightning.pytorch as pl", 'pl.Trainer(accelerator="gpu")', 0),
        ("from pytorch_lightning import LightningModule, Trainer", 'Trainer(accelerator="gpu")', 0),
        (PL, "pl.Trainer(gpus=0)", 1),
        (PL, "pl.Trainer(gpus=[])", 1),
        (PL, "pl.Trainer(gpus=options.gpus)", 1),
        (PL, 'pl.Trainer(accelerator="auto")', 1),
        (PL, "pl.Trainer(accelerator=options.accelerator)", 1),
        (PL, "pl.Trainer(**options)", 1),
        (PL, "pl.Trainer()", 1),
        (PL, '(pl.Trainer(accelerator="gpu") if torch.cuda.is_available() else pl.Trainer())', 1),
        (PL, '(pl.Trainer(accelerator="gpu") if options.fast else pl.Trainer(accelerator="cpu"))', 1),
        ("from transformers import Trainer\n    import pytorch_lightning as pl", 'Trainer(accelerator="gpu")', 1),
    ],
)
def test_the_device_of_a_lightning_module_is_the_loops(imported: str, made: str, count: int) -> None:
    prefix = "" if imported.startswith("from pytorch_lightning") else "pl."
    program = LIGHTNING.format(imported=imported, made=made, prefix=prefix)
    assert told(program) == [("AMP106", INFO)] * count


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("first, label = data[0]", 0),
        ("first = data[0]['image'].to(device)", 0),
        ("first = net(data[0].to(device))", 1),
        ("first = data[choose(net)]", 1),
    ],
)
def test_a_region_around_an_item_has_no_work(body: str, count: int) -> None:
    program = f"""
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        net = torch.nn.Linear(4, 4).to(device)
        data = Shapes("shapes")
        with torch.no_grad():
            with torch.autocast("cuda"):
                {body}
        print(first.std())
    """
    assert told(program) == [("AMP106", INFO)] * count


@pytest.mark.parametrize(
    ("held", "count"),
    [
        ('place = "cuda"', 0),
        ('place = "cuda:1"', 0),
        ('place = "mps"', 1),
        ("place = options.device", 1),
        ('place = "cuda"\n            place = options.device', 1),
        ('place = "cuda"\n            place += options.index', 1),
        ('place = "cuda"\n            for place in options.devices: print(place)', 1),
        ('global place\n            place = "cuda"', 1),
    ],
)
def test_callers_pass_what_a_variable_holds(held: str, count: int) -> None:
    program = f"""
        import torch

        usual = "cuda" if torch.cuda.is_available() else "cpu"

        def check(net, loader, device):
            net = net.to(device)
            with torch.autocast("cuda"):
                return [net(batch) for batch in loader]

        def main(net, loader, options):
            {held}
            for epoch in range(3):
                check(net, loader, place)
            check(net, loader, device=place)
    """
    assert told(program) == [("AMP106", INFO)] * count


FIRST = """
import torch

def main(device: torch.device, use_amp, args):
    scaler = torch.{api}({first})
    scaler.scale(args.loss).backward()
    scaler.step(args.optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("api", "first"),
    [
        ("cuda.amp.GradScaler", '"cuda"'),
        ("cuda.amp.GradScaler", "device, enabled=use_amp"),
        ("cuda.amp.GradScaler", "True"),
        ("cuda.amp.GradScaler", 'args.precision == "fp16"'),
        ("amp.GradScaler", "False"),
    ],
)
def test_a_scaler_begins_with_another_parameter(api: str, first: str) -> None:
    assert ("AMP107", Severity.ERROR) in told(FIRST.format(api=api, first=first))


@pytest.mark.parametrize(
    ("api", "first"),
    [
        ("cuda.amp.GradScaler", "2.0**16"),
        ("cuda.amp.GradScaler", "65536, enabled=use_amp"),
        ("cuda.amp.GradScaler", "use_amp"),
        ("cuda.amp.GradScaler", "enabled=True"),
        ("amp.GradScaler", '"cuda", 1024.0'),
        ("amp.GradScaler", "device"),
    ],
)
def test_a_scaler_begins_with_its_first_parameter(api: str, first: str) -> None:
    assert "AMP107" not in dict(told(FIRST.format(api=api, first=first)))
