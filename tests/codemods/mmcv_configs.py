"""What configs come to: read as mmcv 1.x and as mmengine read them, written from their documented behaviour."""

from __future__ import annotations

import copy
import types
from collections.abc import Mapping
from typing import Any

DELETE = "_delete_"


class Broken(Exception):
    """mmcv refuses this config."""


def load(files: Mapping[str, str], name: str) -> dict[str, Any]:
    """The settings of one file on top of those of its bases; the files lie in one folder."""
    scope: dict[str, Any] = {}
    exec(compile(files[name], name, "exec"), scope)
    own = {k: v for k, v in scope.items() if not k.startswith("__") and not isinstance(v, types.ModuleType)}
    named = own.pop("_base_", [])
    below: dict[str, Any] = {}
    for base in named if isinstance(named, list) else [named]:
        more = load(files, base)
        if below.keys() & more.keys():
            raise Broken("two bases set the same")
        below |= more
    return _merged(own, below)


def _merged(own: dict[str, Any], below: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(below)
    for key, value in own.items():
        if not isinstance(value, dict):
            result[key] = value
            continue
        replaces = key in result and value.get(DELETE, False)
        rest = {name: each for name, each in value.items() if name != DELETE or key not in result}
        if key in result and not replaces:
            if not isinstance(result[key], dict):
                raise Broken(f"{key} is no dict below")
            result[key] = _merged(rest, result[key])
        else:
            result[key] = rest
    return result


def wanted(config: dict[str, Any]) -> dict[str, Any] | None:
    """The `optim_wrapper` that does what a config of mmcv 1.x did. Raises Broken where that would not have run."""
    if "optimizer" not in config:
        return None
    optimizer, hook = dict(config["optimizer"]), dict(config.get("optimizer_config") or {})
    kind, fp16 = hook.pop("type", "OptimizerHook"), config.get("fp16")
    halved = "Fp16" in kind
    if "type" not in optimizer:
        raise Broken("the optimizer has no type")
    if fp16 is not None and "type" in config.get("optimizer_config", {}) and not (halved and not fp16):
        raise Broken("Fp16OptimizerHook has no argument type")
    if not halved and "loss_scale" in hook:
        raise Broken("OptimizerHook has no argument loss_scale")
    if "Cumulative" not in kind and "cumulative_iters" in hook:
        raise Broken("OptimizerHook has no argument cumulative_iters")
    given = hook if halved else fp16
    found: dict[str, Any] = {"type": "OptimWrapper"}
    if given is not None:
        found = {"type": "AmpOptimWrapper", "loss_scale": given.get("loss_scale", 512.0)}
    paramwise, constructor = optimizer.pop("paramwise_cfg", None), optimizer.pop("constructor", None)
    found["optimizer"] = optimizer
    if paramwise is not None:
        found["paramwise_cfg"] = paramwise
    if constructor not in (None, "DefaultOptimizerConstructor"):
        found["constructor"] = constructor
    if hook.get("grad_clip") is not None:
        found["clip_grad"] = hook["grad_clip"]
    if hook.get("cumulative_iters", 1) != 1:
        found["accumulative_counts"] = hook["cumulative_iters"]
    if DELETE in repr(found):
        raise Broken("something reads _delete_")
    return found


def got(config: dict[str, Any]) -> dict[str, Any] | None:
    """The `optim_wrapper` of a config of mmengine, without what it says by default."""
    found = copy.deepcopy(config.get("optim_wrapper"))
    defaults = {
        "paramwise_cfg": None,
        "clip_grad": None,
        "accumulative_counts": 1,
        "constructor": "DefaultOptimWrapperConstructor",
    }
    for key, default in defaults.items() if found else ():
        if key in found and found[key] == default:
            del found[key]
    assert DELETE not in repr(found)
    return found
