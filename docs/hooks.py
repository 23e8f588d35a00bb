"""What the site makes of the repository while MkDocs builds it.

Links out of `docs` lead to the source, the rules' pages stand in the navigation by family and show the fixtures that
prove them, and the playground gets amplint as an archive.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from importlib.metadata import version
from os import environ
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
SOURCE = "https://github.com/amplint/amplint/blob/main/"
PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
"""Files at the top of the repository -> pages of the site."""

SHOWN = 3
"""How many programs of each kind a rule's page shows."""

_LINK = re.compile(r"(?<=\]\()(?!https?://|#)([^)\s#]+)(?=[)#])")
_DECLARATION = re.compile(r"`([^`\n]*<![^`\n]*)`")
_FAMILY = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation, and leave out what is not there."""
    present = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    present.update(PAGES.values())
    assert config.nav is not None
    sections: list[Any] = []
    for section in config.nav:
        ((title, pages),) = section.items()
        sections.append({title: [page for page in pages if page in present] + (_rules() if title == "Rules" else [])})
    config.nav = sections
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie at the top of the repository."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links out of `docs` lead somewhere, and show the programs of a rule on its page."""
    here = next((name for name, shown in PAGES.items() if shown == page.file.src_uri), f"docs/{page.file.src_uri}")
    markdown = _LINK.sub(lambda found: _target(found[1], here, page.file.src_uri), markdown)
    # MkDocs looks for anchors in Markdown with a parser of HTML, to which `<!` begins a declaration, also in code.
    markdown = _DECLARATION.sub(
        lambda found: f"<code>{''.join(f'&#{ord(sign)};' for sign in found[1])}</code>", markdown
    )
    folder = PurePosixPath(page.file.src_uri)
    return markdown + _programs(folder.stem) if folder.parent.name == "rules" else markdown


def on_post_build(config: MkDocsConfig) -> None:
    """Write the archive of the playground, and Pyodide beside it where the environment names its folder."""
    folder = Path(config.site_dir) / "playground"
    write_archive(folder / "amplint.zip")
    if "PYODIDE" in environ:
        shutil.copytree(environ["PYODIDE"], folder / "pyodide", dirs_exist_ok=True)


def write_archive(path: Path) -> None:
    """Write amplint as an archive to `path`: modules, data, and the metadata by which its rules are found."""
    released = version("amplint")
    metadata = {
        "METADATA": f"Metadata-Version: 2.1\nName: amplint\nVersion: {released}\n",
        "entry_points.txt": "[amplint.rules]\nbuiltin = amplint.ruleset\n",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in metadata.items():
            archive.writestr(f"amplint-{released}.dist-info/{name}", text)
        for folder, installed in (("amplint", "amplint"), ("rules", "amplint/ruleset")):
            for file in sorted((ROOT / folder).rglob("*")):
                if file.is_file() and file.parent.name != "__pycache__":
                    archive.write(file, f"{installed}/{file.relative_to(ROOT / folder).as_posix()}")


def _rules() -> list[Any]:
    """The rules' pages by family, as rules.md lists them."""
    text = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    families = ((title, re.findall(r"\((rules/\w+\.md)\)", body)) for title, body in _FAMILY.findall(text))
    return [{title: pages} for title, pages in families if pages]


def _target(link: str, here: str, page: str) -> str:
    """Where `link` of the file `here` leads from `page`."""
    path = (ROOT / here).parent.joinpath(link).resolve()
    if not path.is_relative_to(ROOT) or not path.exists():
        return link
    wanted = path.relative_to(ROOT).as_posix()
    inside = PAGES.get(wanted, wanted.removeprefix("docs/"))
    if wanted not in PAGES and (not wanted.startswith("docs/") or path.is_dir() or path.suffix == ".py"):
        return SOURCE + wanted
    return "../" * page.count("/") + inside


def _programs(code: str) -> str:
    """The fixtures of a rule as Markdown: the shortest ones, folded, and where the others are."""
    folder = next((ROOT / "fixtures").glob(f"{code}-*"), None)
    if folder is None:
        return ""
    text = (
        "\n## Programs that were run { data-search-exclude }\n\n"
        f"amplint is tested with these and the other programs in [{folder.name}]({SOURCE}fixtures/{folder.name}): each "
        "is linted and run by PyTorch, the wrong ones also repaired and run again. `proof` says what a run shows, "
        "`expect` where a finding has to be.\n"
    )
    for kind, sign, opening in (("bad", "failure", "Wrong"), ("good", "success", "Right")):
        programs = sorted(folder.glob(f"{kind}_*.py"), key=lambda path: (path.stat().st_size, path.name))
        for path in programs[:SHOWN]:
            title = path.stem.removeprefix(f"{kind}_").replace("_", " ")
            code_lines = path.read_text(encoding="utf-8").rstrip().splitlines()
            body = "\n".join(f"    {line}".rstrip() for line in ["```python", *code_lines, "```"])
            text += f'\n??? {sign} "{opening}: {title}"\n\n{body}\n'
    return text
