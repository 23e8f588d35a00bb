"""The library versions that a project requires, from lock files, requirements, pyproject.toml and install commands."""

from __future__ import annotations

import re

from amplint.torchlib.versions import Wanted, asked

FILES = tuple(
    map(
        re.compile,
        (
            r"(?:uv|poetry|pdm)\.lock",
            r"Pipfile\.lock",
            r"requirements[\w.-]*\.txt",
            r"pyproject\.toml",
            r"setup\.(?:cfg|py)",
            r"environment[\w.-]*\.ya?ml",
            r"(?i:readme|install)[\w.-]{0,40}\.(?:md|rst|txt)",
            r"Dockerfile[\w.-]*",
        ),
    )
)
"""The names of files that say so, first those that say it exactly."""
_MOST_BYTES = 1_000_000


def wanted(raw: bytes, package: str, place: str) -> Wanted | None:
    """The version of `package` that a file with content `raw` requires, None if it states none."""
    if package.encode() not in raw or len(raw) > _MOST_BYTES:
        return None
    text = raw.decode(errors="replace")
    name = re.escape(package)
    locked = re.search(rf'(?m)^name = "{name}"\r?\nversion = "([^"\n]+)"', text)
    locked = locked or re.search(rf'"{name}":\s*\{{[^{{}}]*"version":\s*"==([^"\n]+)"', text)
    if locked is not None:
        return asked(package, f"=={locked[1]}", place)
    line = re.search(_LINE.format(name=name), text, re.MULTILINE) or re.search(_COMMAND.format(name=name), text)
    return asked(package, line["text"].rstrip(" \t,"), place) if line is not None else None


_LINE = (
    r"""(?:^|["',\[{{])[ \t-]*["']?{name}(?:\[[^\]\n]{{0,99}}\])?["']?[ \t]{{0,9}}(?:[=:][ \t]{{0,9}}(?=["'{{]))?"""
    r"""(?:\{{[ \t]{{0,9}}["']?version["']?[ \t]{{0,9}}[:=])?[ \t]{{0,9}}["']?[ \t]{{0,9}}"""
    r"""(?P<text>[=~<>^]{{1,3}}[ \t]{{0,9}}v?\d[\w.*+]*"""
    r"""(?:[ \t]{{0,9}},[ \t]{{0,9}}[=~<>!^]{{1,3}}[ \t]{{0,9}}v?\d[\w.*+]*)*)"""
)
"""A requirement in one line: of pip, of pyproject.toml, of Poetry or of conda."""
_COMMAND = r"""\b(?:pip3?|conda|mamba) install\b[^\n]{{0,200}}?[ "']{name}(?P<text>[=~<>]{{1,3}}\d[\w.*]*)"""
"""A command that installs a version, as a README or a Dockerfile has it."""
