"""What a dry run cannot follow stops it with a message that names the line; all of torch.cuda works or says so."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from amplint.trace.dry import CannotFollow, dry_run
from amplint.trace.gpus import GPUS
from tests.trace.forked import python
from tests.trace.test_command import environment, trace
from tests.trace.versions import FLOAT8_ON_CPUS


def test_every_function_of_torch_cuda_works_or_says_why_not(tmp_path: Path) -> None:
    ran = python(Path(__file__).parents[2], environment(), "-m", "tests.trace.dry_sweep")
    assert ran.returncode == 0, ran.stderr
    said = [line for line in ran.stdout.splitlines() if line.startswith(("cuda.", "accelerator."))]
    came = dict(line.split(" ", 1) for line in said)
    assert len(came) > 150
    stopped = {name: what for name, what in came.items() if what != "works"}
    for name in ("cuda.tunable.tune_gemm_in_file", "cuda.tunable.mgpu_tune_gemm_in_file", "cuda.profiler.init"):
        # PyTorch's own assertion in some versions, and refused in others.
        assert stopped.pop(name, "AssertionError").startswith(("AssertionError", "CannotFollow tests/trace/"))
    crashed = {name: what for name, what in stopped.items() if not what.startswith("CannotFollow tests/trace/")}
    assert not crashed
    kinds = ("Storage", "cuda.nccl.", "cuda.sparse.", "cuda.tunable.", "cuda.gds.", "jiterator", "raph", "allocator_")
    assert not [name for name in stopped if not any(kind in name for kind in kinds)]


GONE = {
    "CUDA graphs": "graph = torch.cuda.CUDAGraph()",
    "calls of NCCL": "torch.cuda.nccl.all_reduce([torch.ones(1, device='cuda')])",
    "kernels written in CUDA": "square = torch.cuda.jiterator._create_jit_fn('T f(T x) { return x * x; }')",
    "operators that only CUDA has": "raise ValueError('Could not run with arguments from the \\'CPU\\' backend')",
    "Triton kernels": "raise RuntimeError('0 active drivers ([]). There should only be one.')",
    "what needs a real GPU": "torch.ones(1).cuda().__cuda_array_interface__",
    "compiled CUDA extensions": "import extension",
    "calls that only NCCL has": "raise RuntimeError('Cannot use ReduceOp.PREMUL_SUM with Gloo')",
}


@pytest.mark.parametrize("what", GONE)
def test_the_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    script = tmp_path / "train.py"
    script.write_text(f"import torch\n\n\ndef train():\n    {GONE[what]}\n\n\ntrain()\n")
    (tmp_path / "extension.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')\n")
    line = "extension.py:1" if "extension" in what else "train.py:5"
    with (
        pytest.raises(CannotFollow, match=f"{line}: a dry run cannot follow {what}: ") as stopped,
        dry_run(GPUS["a100"]),
    ):
        exec(compile(script.read_text(), str(script), "exec"), {})
    assert "race it on a GPU" in str(stopped.value) or "torch.distributed" in str(stopped.value)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_an_extension_that_misses_cuda(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int x;\n")
    library = ["-shared", "-fPIC", "x.c"]
    subprocess.run(["cc", *library, "-o", "libcudart.so.99", "-Wl,-soname,libcudart.so.99"], cwd=tmp_path, check=True)
    linked = ["-Wl,--no-as-needed", "-L.", "-l:libcudart.so.99"]
    subprocess.run(["cc", *library, "-o", "kernels.so", *linked], cwd=tmp_path, check=True)
    (tmp_path / "libcudart.so.99").unlink()
    (tmp_path / "train.py").write_text("import torch\nimport kernels\n")
    ran = trace(tmp_path, "--dry-run", "train.py")
    assert ran.returncode == 1
    assert "train.py:2: a dry run cannot follow compiled CUDA extensions: import kernels\n" in ran.stderr
    assert "PyTorch said: ImportError: libcudart.so.99" in ran.stderr
    assert ran.stderr.count("Traceback") == 1


def test_the_line_of_a_library_is_named_beside_the_script_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = tmp_path / "site-packages" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / "fused.py").write_text("import torch\n\n\ndef run(x):\n    return torch._cudnn_init_dropout_state(*x)\n")
    (tmp_path / "train.py").write_text("from kernels import fused\nfused.run((0.5, True, 1))\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CannotFollow) as stopped, dry_run(GPUS["a100"]):
        runpy.run_path("train.py")
    told = str(stopped.value).splitlines()
    assert told[0] == "train.py:2: a dry run cannot follow operators that only CUDA has: fused.run((0.5, True, 1))"
    assert told[1] == "  in kernels/fused.py:5: return torch._cudnn_init_dropout_state(*x)"
    assert told[-1].endswith("with arguments from the 'CPU' backend.")


@pytest.mark.skipif(FLOAT8_ON_CPUS, reason="this PyTorch multiplies float8 on CPUs")
def test_products_of_float8_need_a_newer_version_or_a_gpu() -> None:
    one = torch.ones(())
    operand = torch.ones(16, 16).to(torch.float8_e4m3fn)
    with pytest.raises(CannotFollow) as stopped, dry_run(GPUS["a100"]):
        torch._scaled_mm(operand.cuda(), operand.cuda().t(), scale_a=one.cuda(), scale_b=one.cuda())
    told = str(stopped.value).splitlines()
    assert "cannot follow products of float8 in this version of PyTorch: torch._scaled_mm(" in told[0]
    assert told[1] == "Run it with a newer version, or trace it on a GPU."


def test_a_dtype_that_cuda_lacks_is_the_script_s_own_failure() -> None:
    with pytest.raises(NotImplementedError, match="igamma_cuda"), dry_run(GPUS["a100"]):
        torch.igamma(torch.ones(1, device="cuda").half(), torch.ones(1, device="cuda").half())


def test_a_package_that_is_missing_is_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match="flash_attn"), dry_run(GPUS["a100"]):
        exec("import flash_attn_of_nobody", {})


def test_failures_of_the_script_stay_its_own() -> None:
    with pytest.raises(RuntimeError, match=r"^no data$") as failed, dry_run(GPUS["a100"]):
        exec("raise RuntimeError('no data')", {})
    assert not isinstance(failed.value, CannotFollow)
