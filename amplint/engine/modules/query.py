"""Kinds of queries about the tree around a file."""

from __future__ import annotations

import enum


class Query(str, enum.Enum):
    """What the analysis of a file asks of the project around it."""

    PROJECT = "project"
    """A digest of all files of the project (see `Fingerprints`)."""
    MODULE = "module"
    """The file of a module."""
    FILE = "file"
    """A file by its relative path."""
    LAUNCH = "launch"
    """The configuration that `accelerate launch` reads."""
    VERSION = "version"
    """The versions of a package that the project requires."""
    UNRESOLVED = "unresolved"
    """A module that the file imports from the project, which lacks it."""
    PRECISIONS = "precisions"
    """The mixed precisions that configuration files name."""
    KERNELS = "kernels"
    """A package of kernels for CUDA that a module beside the file imports."""
    TRAINED = "trained"
    """The dtypes of the regions in files that train."""
    MODEL_IN_REGION = "model-in-region"
    """A file with a model that enters a region, which another file imports beside this one."""
    SETS = "sets"
    """Whether something sets a setting."""
    SWITCHES = "switches"
    """Whether something can switch a setting on."""
    MENTIONS = "mentions"
    """Whether another file mentions a name."""
    USES = "uses"
    """Whether another file mentions a name and the module of the file."""
    UNUSED = "unused"
    """Whether no file does more with a name than to define it."""
    UNCALLED = "uncalled"
    """Whether no file can use a method of the file by its name."""
    IMPORTERS = "importers"
    """The files that import a name of the file, with digests of their contents."""
