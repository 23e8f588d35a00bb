"""Conversion of the settings of mmcv 1.x to one `optim_wrapper` of mmengine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amplint.codemods.conversion import Remark
from amplint.codemods.mmcv.inheritance import UNKNOWN, Inherited
from amplint.codemods.mmcv.settings import DELETE, Entry, Setting, items, key
from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.training.refusal import Refusal
from amplint.training.script import Script

AMP = "AmpOptimWrapper"
_HOOKS = {
    "OptimizerHook": ("detect_anomalous_params",),
    "Fp16OptimizerHook": ("loss_scale", "distributed"),
    "GradientCumulativeOptimizerHook": ("cumulative_iters", "detect_anomalous_params"),
    "GradientCumulativeFp16OptimizerHook": ("cumulative_iters", "loss_scale", "distributed"),
    "DistOptimizerHook": ("update_interval", "use_fp16"),
}
"""Hook -> its arguments besides `grad_clip` and those that only mmcv's own implementation for PyTorch 1.5 reads."""
_FP16_HOOKS = ("Fp16OptimizerHook", "GradientCumulativeFp16OptimizerHook")
_FREELY = ("type", "grad_clip", "coalesce", "bucket_size_mb", DELETE)
_SCALER = {"init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled", DELETE}
_CONSTRUCTOR = "'DefaultOptimWrapperConstructor'"
_APART = ("paramwise_cfg", "constructor")
"""Settings that mmcv reads in `optimizer`, and mmengine beside it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One entry of `optim_wrapper`.

    The value is code, or an expression of the config, then without the entries `without`, and with `_delete_=True` if
    it `replaces` an inherited one. `origin` is the setting that it was in.
    """

    name: str
    value: cst.BaseExpression | str
    comments: tuple[str, ...] = ()
    comment: str = ""
    without: frozenset[str] = frozenset()
    replaces: bool = False
    origin: str | None = None


class Wrapper:
    """Converts `settings`, on top of the `inherited` ones; `remarks` are about rows of the script."""

    def __init__(self, script: Script, settings: dict[str, Setting], inherited: Inherited) -> None:
        self.script = script
        self.remarks: list[Remark] = []
        self._optimizer = settings.get("optimizer")
        self._config = settings.get("optimizer_config")
        self._fp16 = settings.get("fp16")
        self._inherited = inherited
        self._base = inherited.wrapper
        self._hook = self._hook_type()

    def pieces(self) -> list[Piece]:
        """The entries of `optim_wrapper`; none if it is not needed."""
        for setting in (self._optimizer, self._config, self._fp16):
            if setting is not None and setting.deletes and self._base is None:
                why = f"what {DELETE} removes is not in sight: {self._inherited.missing} cannot be read"
                raise Refusal(self.script.row(setting.statement), why)
        amp = self._is_amp()
        found = [*self._loss_scale(amp=amp), *self._optimizer_pieces(), *self._hook_pieces()]
        kind = self._kind(amp=amp)
        if kind is not None and (found or amp):
            found.insert(0, Piece("type", f"'{kind}'"))
        return found

    def _hook_type(self) -> str | None:
        """The hook that this config itself sets."""
        if self._config is None:
            return None
        entries = self._entries(self._config)
        given = entries.get("type")
        hook = _string(given.value) if given is not None else None
        if given is not None and hook not in _HOOKS:
            name = hook or "a hook that is not written out"
            raise Refusal(self.script.row(given.item), f"what {name} would be in mmengine is not known")
        allowed = [*_FREELY, *(_HOOKS[hook or "OptimizerHook"])]
        if hook is None and self._base != {}:
            allowed += [name for each, names in _HOOKS.items() if each != "DistOptimizerHook" for name in names]
        for name, entry in entries.items():
            if name not in allowed:
                raise Refusal(self.script.row(entry.item), f"{name} is no argument of {hook or 'OptimizerHook'}")
        return hook

    def _is_amp(self) -> bool | None:
        """Whether this config enables mixed precision or disables it; None if it inherits that."""
        scale = self._scale_of_fp16()
        inherits = self._base is not None and self._base.get("type") == AMP
        if self._hook in _FP16_HOOKS:
            return True
        if self._hook is not None and scale is not None:
            raise Refusal(self.script.row(scale.item), f"fp16 and {self._hook} are two answers to one question")
        if self._hook is not None and inherits:
            assert self._config is not None
            why = f"a base asks for mixed precision, and {self._hook} does without it"
            raise Refusal(self.script.row(self._config.statement), why)
        if self._hook == "DistOptimizerHook":
            return self._flag("use_fp16")
        if inherits and scale is None and self._config is not None and self._config.deletes:
            why = f"whether {DELETE} takes back the mixed precision of a base is not known"
            raise Refusal(self.script.row(self._config.statement), why)
        if self._fp16 is not None and self._fp16.entries is None:
            self._refuse_disabled_fp16()
        elif self._fp16 is not None and scale is None and not inherits:
            why = "an empty fp16 is loss_scale=512.0 for some libraries and nothing for others"
            raise Refusal(self.script.row(self._fp16.statement), why)
        return True if scale is not None else False if self._hook is not None else None

    def _refuse_disabled_fp16(self) -> None:
        """Raise Refusal if `fp16 = None` overrides an inherited setting."""
        assert self._fp16 is not None
        row = self.script.row(self._fp16.statement)
        if self._base is None:
            raise Refusal(row, f"whether {self._inherited.missing}, which cannot be read, asks for fp16 is not known")
        if self._base.get("type") == AMP:
            raise Refusal(row, "this takes back the mixed precision of a base, and its loss_scale would stay")

    def _scale_of_fp16(self) -> Entry | None:
        if self._fp16 is None or self._fp16.entries is None:
            return None
        for name, entry in self._fp16.entries.items():
            if name not in ("loss_scale", "coalesce", "bucket_size_mb", DELETE):
                raise Refusal(self.script.row(entry.item), f"{name} is no argument of Fp16OptimizerHook")
        return self._fp16.entries.get("loss_scale")

    def _kind(self, *, amp: bool | None) -> str | None:
        """The type of the wrapper; None if it is inherited."""
        if amp:
            return None if self._base is not None and self._base.get("type") == AMP else AMP
        certain = self._base == {} or (self._base is None and amp is False)
        return "OptimWrapper" if certain else None

    def _loss_scale(self, *, amp: bool | None) -> Iterator[Piece]:
        """The loss scale. By default mmcv scales by 512, and mmengine dynamically."""
        setting = self._config
        entry = setting.entries.get("loss_scale") if setting is not None and setting.entries is not None else None
        other = self._scale_of_fp16()
        if entry is not None and not amp and self._base is not None and self._base.get("type") != AMP:
            raise Refusal(self.script.row(entry.item), "loss_scale is no argument of OptimizerHook")
        if other is not None and self._hook is not None:
            written = self.script.text_of(entry.value) if entry is not None else "512."
            if written != self.script.text_of(other.value):
                raise Refusal(self.script.row(other.item), "fp16 and the hook have two different loss scales")
        elif other is not None:
            entry, setting = other, self._fp16
        if entry is None:
            if amp and self._hook == "DistOptimizerHook":
                yield Piece("loss_scale", "'dynamic'")
            elif amp and (self._base is None or "loss_scale" not in self._base or self._deletes(self._config)):
                yield Piece("loss_scale", "512.0")
            elif amp and self._fp16 is not None and self._fp16.entries is None:
                row = self.script.row(self._fp16.statement)
                raise Refusal(row, "whether this takes back the loss_scale of a base is not known")
            return
        code = self._scale_checked(entry)
        replaces = items(entry.value) is not None and self._replaces("loss_scale", entry, setting)
        yield self._piece("loss_scale", entry, setting, code, replaces=replaces)

    def _scale_checked(self, entry: Entry) -> str | None:
        """The code for a loss scale that has to be changed; None to keep it."""
        row = self.script.row(entry.item)
        if isinstance(entry.value, cst.Integer):
            self.remarks.append(Remark(row, "loss_scale has to be a float, for mmcv as well"))
            return f"{self.script.text_of(entry.value)}.0"
        if isinstance(entry.value, cst.SimpleString) and _string(entry.value) != "dynamic":
            raise Refusal(row, "a loss_scale that is a text can only be 'dynamic'")
        for item in items(entry.value) or ():
            if key(item) is None or key(item) not in _SCALER:
                why = f"GradScaler does not take {key(item) or 'what is not written out here'}"
                raise Refusal(row, why)
        return None

    def _optimizer_pieces(self) -> Iterator[Piece]:
        setting = self._optimizer
        if setting is None:
            return
        entries = self._entries(setting)
        row = self.script.row(setting.statement)
        self._require_one_optimizer(row, entries)
        known = self._base or {}
        apart = frozenset(name for name in _APART if name in entries)
        stale = frozenset({DELETE} if setting.deletes and "optimizer" not in known else ())
        if len(entries) > len(apart | stale):
            yield Piece("optimizer", setting.value, comment=setting.comment, without=apart | stale)
        constructor, paramwise = entries.get("constructor"), entries.get("paramwise_cfg")
        if constructor is not None:
            default = _string(constructor.value) == "DefaultOptimizerConstructor"
            yield self._piece("constructor", constructor, None, _CONSTRUCTOR if default else None)
            if not default:
                why = f"{self.script.text_of(constructor.value)} has to be a constructor of optimizer wrappers now"
                self.remarks.append(Remark(self.script.row(constructor.item), why))
        elif setting.deletes and "constructor" in known:
            yield Piece("constructor", _CONSTRUCTOR)
        if paramwise is not None:
            replaces = self._replaces("paramwise_cfg", paramwise, setting)
            yield self._piece("paramwise_cfg", paramwise, None, replaces=replaces)
        elif setting.deletes and known.get("paramwise_cfg") is not None:
            yield Piece("paramwise_cfg", "None")

    def _require_one_optimizer(self, row: int, entries: dict[str, Entry]) -> None:
        """Raise Refusal if `optimizer` does not describe one optimizer."""
        if "paramwise_options" in entries:
            raise Refusal(row, "paramwise_options is of mmselfsup: what it would be in mmengine is not known")
        inner = [items(entry.value) for name, entry in entries.items() if name not in _APART]
        several = any(key(item) in ("type", "lr") for each in inner for item in each or ())
        untyped = "type" not in entries and self._base is not None and "optimizer" not in self._base
        if several or untyped:
            raise Refusal(row, "the optimizer has no type: several of them need a constructor of their library")

    def _hook_pieces(self) -> Iterator[Piece]:
        setting = self._config
        if setting is None:
            return
        entries = self._entries(setting)
        yield from self._clip(setting, entries.get("grad_clip"))
        counts = entries.get("cumulative_iters") or entries.get("update_interval")
        before = self._base.get("accumulative_counts", 1) if self._base is not None else UNKNOWN
        if counts is not None and (self.script.text_of(counts.value) != "1" or before != 1):
            yield self._piece("accumulative_counts", counts, setting)
            if counts.name == "update_interval":
                why = "DistOptimizerHook dropped the last gradients where the iterations are no multiple"
                self.remarks.append(Remark(self.script.row(counts.item), why))
        elif counts is None and setting.deletes and before != 1:
            yield Piece("accumulative_counts", "1")
        debugged = entries.get("detect_anomalous_params")
        if debugged is not None and self.script.text_of(debugged.value) != "False":
            why = "detect_anomalous_params belongs into model_wrapper_cfg of mmengine"
            self.remarks.append(Remark(self.script.row(debugged.item), why))

    def _clip(self, setting: Setting, entry: Entry | None) -> Iterator[Piece]:
        before = self._base.get("clip_grad") if self._base is not None else UNKNOWN
        if entry is None:
            if setting.deletes and before is not None:
                yield Piece("clip_grad", "None")
        elif self.script.text_of(entry.value) == "None":
            if before is not None:
                yield self._piece("clip_grad", entry, setting)
        else:
            deletes = _deletes(entry)
            if deletes and before is UNKNOWN:
                why = f"what {DELETE} removes is not in sight: {self._inherited.missing} cannot be read"
                raise Refusal(self.script.row(entry.item), why)
            stale = frozenset({DELETE} if deletes and "clip_grad" not in (self._base or {}) else ())
            replaces = self._replaces("clip_grad", entry, setting)
            yield self._piece("clip_grad", entry, setting, without=stale, replaces=replaces)

    def _replaces(self, name: str, entry: Entry, setting: Setting | None) -> bool:
        """Whether a dict has to replace the inherited value of `name` instead of being merged into it."""
        if self._base is None or name not in self._base or _deletes(entry):
            return False
        return self._deletes(setting) or not isinstance(self._base[name], dict)

    def _piece(
        self,
        name: str,
        entry: Entry,
        setting: Setting | None,
        code: str | None = None,
        *,
        without: frozenset[str] = frozenset(),
        replaces: bool = False,
    ) -> Piece:
        """The entry under its new name, with its comment or else that of its setting."""
        if replaces and items(entry.value) is None:
            raise Refusal(self.script.row(entry.item), f"{entry.name} would have to replace what a base says")
        comment = entry.comment or (setting.comment if setting is not None else "")
        value = code if code is not None else entry.value
        origin = setting.name if setting is not None else None
        return Piece(name, value, entry.comments, comment, without, replaces, origin)

    def _flag(self, name: str) -> bool:
        assert self._config is not None
        given = self._entries(self._config).get(name)
        text = self.script.text_of(given.value) if given is not None else "False"
        if text not in ("True", "False"):
            raise Refusal(self.script.row(self._config.statement), f"{name} is not written out")
        return text == "True"

    def _deletes(self, setting: Setting | None) -> bool:
        return setting is not None and setting.deletes

    def _entries(self, setting: Setting) -> dict[str, Entry]:
        if setting.entries is None:
            raise Refusal(self.script.row(setting.statement), f"{setting.name} is None: nothing would be trained")
        return setting.entries


def _deletes(entry: Entry) -> bool:
    return DELETE in {key(item) for item in items(entry.value) or ()}


def _string(node: Any) -> str | None:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None
