"""Evidence of the precision that a project computes in, beside the file that is analysed."""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING

from amplint.engine.modules.folders import files_below
from amplint.engine.modules.mentions import imports_of
from amplint.regex import regex
from amplint.source.configs.names import YAML, is_config
from amplint.torchlib.frameworks import LAUNCHED_BY

if TYPE_CHECKING:
    from amplint.engine.modules.contents import Contents
    from amplint.engine.modules.folders import Folders
    from amplint.engine.modules.mentions import Mentions

_PRECISION = regex(rb"(?m)^[^#\n]{0,200}\bmixed_precision[\"']?[ \t]*:[ \t]*[\"']?(\w+)")
_SHARDED_LAUNCH = regex(rb"(?m)^[ \t]*[\"']?distributed_type[\"']?[ \t]*:[ \t]*[\"']?(?:DEEPSPEED|FSDP)")
_BUILDS_KERNELS = (b"cpp_extension", b".cu")
_REGION = regex(rb"\bautocast\(((?:[^()\n#]|\([^()]*\)|\n)*)\)")
_REGION_DTYPE = regex(rb"\bdtype[ \t]*=[ \t]*(?:torch\.(float16|half|bfloat16)\b)?")
_OF_CUDA = regex(rb"^[ \t]*(?:device_type[ \t]*=[ \t]*)?[\"']cuda|^[ \t]*(?:enabled[ \t]*=[^,]*)?$")
"""Arguments of a region without a dtype that is CUDA's, whose default is float16."""
_MODEL_IN_REGION = regex(
    rb"(?m)^[ \t]+@(?:[\w.]+\.)?autocast\((?!False|[^\n]*enabled[ ]*=[ ]*False)[^\n]*\n(?:[ \t]+@[^\n]*\n)*"
    rb"[ \t]+def forward\("
    rb"|^[ \t]+def forward\([^)]*\)[^:\n]*:[ \t]*\n\s*(?:\"\"\"(?:[^\"]|\"(?!\"\"))*\"\"\"\s*)?(?:#[^\n]*\n\s*)*"
    rb"with (?:[\w.]+\.)?autocast\((?!False|[^\n]*enabled[ ]*=[ ]*False)"
)
"""A `forward` that a decorator, or its first statement, puts into a region."""
_MOST_CONFIGS = 500
_LAUNCH_SIGNS = tuple(name.encode() for name in sorted(LAUNCHED_BY))
_MOST_LAUNCH_FILES = 20


class Evidence:
    """Answers for the file of an importer what other files of its project say of precision and devices."""

    def __init__(self, contents: Contents, folders: Folders, mentions: Mentions) -> None:
        self._contents = contents
        self._folders = folders
        self._mentions = mentions
        self._precisions: dict[str, frozenset[str]] = {}

    def launched_by(self, importer: str) -> str | None:
        """The configuration beside `importer` that `accelerate launch` reads, None unless there is exactly one."""
        folder = os.path.dirname(importer)
        names = sorted(name for name in self._folders.listing(folder) if name.endswith(YAML))
        paths = [os.path.join(folder, name) for name in names[:_MOST_LAUNCH_FILES]]
        found = [path for path in paths if all(sign in (self._contents.raw(path) or b"") for sign in _LAUNCH_SIGNS)]
        return found[0] if len(found) == 1 else None

    def precisions(self, importer: str) -> frozenset[str]:
        """The mixed precisions that configuration files of the project name, but for those under DeepSpeed and FSDP."""
        root = self._folders.root(os.path.dirname(importer))
        if root not in self._precisions:
            configs = itertools.islice(filter(is_config, files_below(root)), _MOST_CONFIGS)
            raws = (self._contents.raw(path) or b"" for path in configs)
            named = (name for raw in raws if not _SHARDED_LAUNCH.search(raw) for name in _PRECISION.findall(raw))
            self._precisions[root] = frozenset(name.decode() for name in named)
        return self._precisions[root]

    def trained(self, importer: str) -> frozenset[str]:
        """The dtypes of the regions in the other Python files of the project that run backward, "" for unknown ones."""
        if self._mentions.files_around(importer) is None:
            return frozenset({""})
        raws = (raw for _, raw in self._mentions.others(importer) if b".backward(" in raw)
        return frozenset(_dtype(arguments) for raw in raws for arguments in _REGION.findall(raw))

    def kernels_beside(self, importer: str) -> str | None:
        """A package that builds kernels for CUDA and that another module in the folder of `importer` always imports."""
        folder, files = os.path.dirname(importer), self._mentions.files_around(importer) or ()
        built = {
            os.path.basename(os.path.dirname(path))
            for path in files
            if path.endswith(".py") and all(sign in (self._contents.raw(path) or b"") for sign in _BUILDS_KERNELS)
        } - {os.path.basename(folder), ""}
        beside = (os.path.join(folder, name) for name in sorted(self._folders.scripts(folder)))
        raws = [self._contents.raw(path) or b"" for path in beside if path != importer] if built else []
        imports = (
            (name, re.compile(rb"(?m)^(?:from|import) %s\b" % re.escape(name.encode()))) for name in sorted(built)
        )
        return next((name for name, pattern in imports if any(map(pattern.search, raws))), None)

    def model_in_region(self, importer: str) -> str | None:
        """A file with a model that enters a region by itself, which another one imports beside `importer`."""
        found = self._mentions.scripts_with(importer, _MODEL_IN_REGION)
        importing = imports_of(importer)
        users = [raw for _, raw in self._mentions.others(importer) if importing.search(raw)] if found else []
        return next((path for path in found if any(map(imports_of(path).search, users))), None)

    def forget(self) -> None:
        """Drop what was read in configuration files."""
        self._precisions.clear()


def _dtype(arguments: bytes) -> str:
    """The half dtype of a region with these `arguments`; "" if it is unknown."""
    found = _REGION_DTYPE.search(arguments)
    if found is None:
        return "float16" if _OF_CUDA.search(arguments) else ""
    name = (found[1] or b"").decode()
    return "float16" if name == "half" else name
