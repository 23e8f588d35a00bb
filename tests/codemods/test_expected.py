"""The files with kept results of codemods; what they say is compared where the programs are converted."""

from __future__ import annotations

from tests.codemods.expected import HERE, cases


def test_every_file_is_of_a_case() -> None:
    assert set(HERE.rglob("*.diff")) == {case.path for case in cases()}


def test_what_is_kept_is_small() -> None:
    assert sum(path.stat().st_size for path in HERE.rglob("*.diff")) < 1_000_000
