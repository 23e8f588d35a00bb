"""Stands in for packages that scripts import and a training step does not need: whatever is asked of them is a mock.

Python imports this by itself from the first folder of PYTHONPATH.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from unittest.mock import MagicMock, NonCallableMagicMock

MOCKED = frozenset(
    {
        *("boto3", "botocore", "inflect", "librosa", "lmdb", "lpips", "panopticapi", "requests", "sentencepiece"),
        *("skimage", "submitit", "unidecode"),
        *("tensorboardX", "tensorboard_logger", "torch.utils.tensorboard", "wandb"),
    }
)


class Mocked(ModuleType):
    """A module that has everything."""

    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> MagicMock:
        if name.startswith("__"):
            raise AttributeError(name)
        mock = MagicMock(name=f"{self.__name__}.{name}")
        mock.return_value = NonCallableMagicMock(log_dir=".")
        return mock


class Finder(MetaPathFinder, Loader):
    """Finds the modules of MOCKED, and those below them, before anything that is installed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where the module comes from: here, or from elsewhere (None)."""
        mocked = any(name == one or name.startswith(one + ".") for one in MOCKED)
        return ModuleSpec(name, self, is_package=True) if mocked else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module that has everything."""
        return Mocked(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run."""


sys.meta_path.insert(0, Finder())
