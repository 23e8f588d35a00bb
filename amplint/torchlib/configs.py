"""Readers of configuration files, and containers of their content."""

from __future__ import annotations

LOADERS = frozenset(
    {
        *("json.load", "json.loads"),
        *("yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load"),
    }
)
"""Functions of an open file, or of its text, that return its content."""
OMEGA_LOADERS = frozenset({"omegaconf.OmegaConf.load", "omegaconf.omegaconf.OmegaConf.load"})
"""Functions of a path that return the file's content as OmegaConf parses it."""
MERGES = frozenset({"omegaconf.OmegaConf.merge", "omegaconf.OmegaConf.unsafe_merge"})
"""Functions that merge dictionaries, the later ones taking precedence."""
WITHOUT_OPTIONS = frozenset({"omegaconf.OmegaConf.from_cli", "omegaconf.OmegaConf.from_dotlist"})
"""Functions that return the settings of the command line; empty if it has none."""
SAME = frozenset(
    {
        *("omegaconf.OmegaConf.create", "omegaconf.OmegaConf.to_container", "omegaconf.DictConfig"),
        *("types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict", "munch.Munch", "munch.munchify"),
        *("addict.Dict", "box.Box", "ml_collections.ConfigDict", "ml_collections.config_dict.ConfigDict"),
        *("attrdict.AttrDict", "dotmap.DotMap"),
    }
)
"""Functions and classes that wrap a dictionary unchanged, passed as one or by keywords."""
SAME_PATH = frozenset(
    {
        *("pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath", "os.fspath", "builtins.str"),
        *("os.path.abspath", "os.path.realpath", "os.path.normpath"),
    }
)
"""Functions that return their argument, a path."""
SAME_PATH_METHODS = frozenset({"resolve", "absolute", "as_posix", "expanduser"})
READING_METHODS = frozenset({"open", "read_text", "read_bytes", "read"})
"""Methods that read a path or an open file."""
HYDRA_MAIN = frozenset({"hydra.main"})
"""Decorators that pass a function the settings composed of `config_name` in `config_path`."""
HYDRA_PARAMETERS = ("config_path", "config_name")
PARSERS = frozenset({"parse_args", "parse_known_args"})
"""Methods of a command-line parser that return its options."""
MUTATORS = frozenset(
    {
        *("update", "pop", "setdefault", "clear", "popitem"),
        *("merge_with", "merge_from_file", "merge_from_list", "merge_from_dict"),
    }
)
"""Methods that update a dictionary."""
OF_DICTIONARIES = frozenset({"get", "keys", "values", "items", "copy", "to_dict", *MUTATORS})
"""Attributes of a dictionary that are no settings."""
DECIDING = ("amp", "fp16", "bf16", "half", "precision", "dtype", "mixed", "scaler", "autocast", "accum", "clip", "fp32")
"""Substrings of the names of settings that matter for precision."""
