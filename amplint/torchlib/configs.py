"""Readers of configuration files, and containers of their content."""

from __future__ import annotations

LOADERS = frozenset(
    {
        *("json.load", "json.loads"),
        *("yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load"),
    }
)
"""Functions of a file that is open, or of its text, which return what is in it."""
OMEGA_LOADERS = frozenset({"omegaconf.OmegaConf.load", "omegaconf.omegaconf.OmegaConf.load"})
"""Functions of a path that return what OmegaConf makes of the file."""
MERGES = frozenset({"omegaconf.OmegaConf.merge", "omegaconf.OmegaConf.unsafe_merge"})
"""Functions of several dictionaries, of which the later ones count."""
WITHOUT_OPTIONS = frozenset({"omegaconf.OmegaConf.from_cli", "omegaconf.OmegaConf.from_dotlist"})
"""Functions that return what the command line sets; empty if it says nothing."""
SAME = frozenset(
    {
        *("omegaconf.OmegaConf.create", "omegaconf.OmegaConf.to_container", "omegaconf.DictConfig"),
        *("types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict", "munch.Munch", "munch.munchify"),
        *("addict.Dict", "box.Box", "ml_collections.ConfigDict", "ml_collections.config_dict.ConfigDict"),
        *("attrdict.AttrDict", "dotmap.DotMap"),
    }
)
"""Functions and classes that hold a dictionary as it is given to them, by keywords or as one."""
SAME_PATH = frozenset(
    {
        *("pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath", "os.fspath", "builtins.str"),
        *("os.path.abspath", "os.path.realpath", "os.path.normpath"),
    }
)
"""Functions that return the path that they are given."""
SAME_PATH_METHODS = frozenset({"resolve", "absolute", "as_posix", "expanduser"})
READING_METHODS = frozenset({"open", "read_text", "read_bytes", "read"})
"""Methods of a path or an open file by which it is read."""
HYDRA_MAIN = frozenset({"hydra.main"})
"""Decorators that hand a function the settings composed of `config_name` in `config_path`."""
HYDRA_PARAMETERS = ("config_path", "config_name")
PARSERS = frozenset({"parse_args", "parse_known_args"})
"""Methods of a parser of the command line that return its options."""
MUTATORS = frozenset(
    {
        *("update", "pop", "setdefault", "clear", "popitem"),
        *("merge_with", "merge_from_file", "merge_from_list", "merge_from_dict"),
    }
)
"""Methods by which something else is put into a dictionary."""
OF_DICTIONARIES = frozenset({"get", "keys", "values", "items", "copy", "to_dict", *MUTATORS})
"""Attributes of a dictionary that are no settings."""
DECIDING = ("amp", "fp16", "bf16", "half", "precision", "dtype", "mixed", "scaler", "autocast", "accum", "clip", "fp32")
"""What names of settings that matter for precision contain."""
