"""Installed packages: the package of a file, and packages that can count as the user's code."""

from __future__ import annotations

import importlib.util

_FOLDERS = ("/site-packages/", "/dist-packages/")
_NEVER = ("torch", "amplint")


def package_path(filename: str) -> str:
    """The path of a file relative to site-packages, `timm/layers/mlp.py`; empty outside of it."""
    name = filename.replace("\\", "/")
    return next((name.rpartition(folder)[2] for folder in _FOLDERS if folder in name), "")


def refusal(package: str) -> str:
    """Why `package`, by its import name, cannot count as the user's code; empty if it can."""
    top = package.partition(".")[0]
    if top in _NEVER:
        return f"{top} does not count as a library: what it runs is told at the line that calls it"
    try:
        known = importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        known = False
    return "" if known else f"no package {package} is installed"
