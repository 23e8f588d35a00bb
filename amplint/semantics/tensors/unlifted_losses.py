"""Losses whose inputs nothing converts to float32, in files and models that use half without autocast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.regex import regex
from amplint.semantics.events import LossUnlifted
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.tensors.conversions import (
    bindings,
    converts,
    half_model,
    is_under_autocast,
    is_without_gradients,
    names_read,
    sources,
)
from amplint.semantics.values.state import State
from amplint.semantics.words import TORCH_MODULES
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.torchlib.policy import LOSSES, words

_REGION = regex(r"(?<!accelerator\.)autocast\b")
_TOLD = LOSSES | words("logsigmoid log_softmax")
_CLASS = "CrossEntropyLoss"


class UnliftedLosses(Tracker):
    """Tracks calls of PyTorch's losses, once the file is read."""

    def is_needed(self) -> bool:
        """Whether dtypes are assumed and a selected rule handles the event."""
        return self.machine.assumes and LossUnlifted.kind in self.machine.wanted

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit the losses."""
        source = self.machine.program.main
        self.machine.statement = None
        losses = list(_losses(source))
        if not losses:
            return
        lifted = next((call for call in losses if _is_lifted(call) and not _is_no_evidence(source, call)), None)
        half = lifted or half_model(source)
        for call in losses:
            function, pretrained = source.function_around(call), None if half is not None else _pretrained(source, call)
            beside = half or pretrained
            if beside is None or function is None or _is_lifted(call) or _is_spared(source, function, call):
                continue
            given = call.args[0].value
            if names_read(given) and not any(converts(one) for one in sources(function, given)):
                self.machine.emit(
                    State(), LossUnlifted, call, loss=_op(call), beside=beside, lifted=lifted is not None,
                    pretrained=pretrained is not None, assumed=True,
                )  # fmt: skip


def _losses(source: Source) -> Iterator[cst.Call]:
    """The calls of PyTorch's functions for losses, and of cross-entropies that the same function makes."""
    for chunk in source.chunks:
        if not any(f"{name}(" in chunk.text for name in (*_TOLD, _CLASS)):
            continue
        for call in every(chunk.module, cst.Call):
            owner, _, last = (dotted(call.func) or "").rpartition(".")
            if call.args and ((last in _TOLD and TORCH_MODULES.search(owner)) or _is_made_for(source, call)):
                yield call


def _is_made_for(source: Source, call: cst.Call) -> bool:
    """Whether what is called is a cross-entropy that the same function has made."""
    function = source.function_around(call) if isinstance(call.func, cst.Name) else None
    made = (
        bindings(function).get(call.func.value, ()) if function is not None and isinstance(call.func, cst.Name) else ()
    )
    return bool(made) and all(isinstance(one, cst.Call) and last_name(one.func) == _CLASS for one in made)


def _op(call: cst.Call) -> str:
    last = last_name(call.func)
    return last if last in _TOLD else "cross_entropy"


def _pretrained(source: Source, call: cst.Call) -> cst.BaseExpression | None:
    """The base that makes the class around a call one of pretrained models, by its name: users choose their dtype."""
    around = next((one for one in source.ancestors(call) if isinstance(one, cst.ClassDef)), None)
    bases = [base.value for base in around.bases] if around is not None else []
    return next((base for base in bases if (last_name(base) or "").endswith("PreTrainedModel")), None)


def _is_lifted(call: cst.Call) -> bool:
    """Whether a loss gets float32 by a conversion that is written into the call."""
    if any(one.keyword is not None and one.keyword.value == "dtype" for one in call.args):
        return True
    inner = every(call.args[0].value, cst.Call)
    return any(last_name(one.func) == "float" for one in inner)


def _is_no_evidence(source: Source, call: cst.Call) -> bool:
    """Whether a loss compares counts or flags, which have to be converted in any case, or is only measured."""
    function, given = source.function_around(call), call.args[0].value
    return (
        function is None
        or is_without_gradients(source, call)
        or any(True for one in sources(function, given) for _ in every(one, cst.Comparison))
    )


def _is_spared(source: Source, function: cst.FunctionDef, call: cst.Call) -> bool:
    """Whether a loss is not trained on, or a region is around it, or somewhere in the file and not in its function."""
    if is_under_autocast(source, call) or is_without_gradients(source, call):
        return True
    return _REGION.search(source.text) is not None and _REGION.search(source.code(function)) is None
