"""Divergences of distributions whose probabilities were computed in half.

Where two distributions are alike, all of a divergence is in their last digits. A probability below 6e-8 is 0 in
float16, and its logarithm infinite. Autocast runs softmax in float32, so that the model itself has to be half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.semantics.events import How, Operand, Sensitive
from amplint.semantics.python.machine import Machine
from amplint.semantics.tensors.conversions import half_model
from amplint.semantics.tensors.sensitive import Ran, SensitiveRuns, emit_sensitive, sources
from amplint.semantics.tensors.subregions import disables_autocast
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor
from amplint.source import syntax as cst
from amplint.torchlib.policy import words

_PROBABILITIES = words("softmax softmin")
_DISTRIBUTIONS = _PROBABILITIES | {"log_softmax"}
_DIVERGENCES = words("kl_div")
_DISTANCES = words("sub minimum")
_LOGARITHMS = words("log log2 log10 xlogy")
_WATCHED = _DIVERGENCES | _DISTANCES | _LOGARITHMS | {"mul"}


def ran(machine: Machine, state: State, node: cst.CSTNode, op: str, operands: Sequence[Operand]) -> None:
    """Report the softmax operands of an operation that compares distributions or takes their logarithm."""
    if op not in _WATCHED or Sensitive.kind not in machine.wanted or not machine[SensitiveRuns].runs:
        return
    given = [list(_distributions(machine, operand)) for operand in operands]
    if op in _LOGARITHMS:
        found = [this for this in given[0] if this.op in _PROBABILITIES]
    elif op in _DIVERGENCES:
        found = [this for runs in given for this in runs]
    elif len(given) == 2 and all(given) and given[0][0].node is not given[1][0].node:
        found = [this for runs in given for this in runs]
        if op == "mul" and len({this.op in _PROBABILITIES for this in found}) == 1:
            return  # only a probability times a logarithm is a term of an entropy
    else:
        return
    main = machine.program.main
    if "backward(" in main.text or disables_autocast(main.text) or half_model(main) is None:
        return  # a training script chooses its dtypes itself, and the regions of callers compute softmax in float32
    for this in found:
        emit_sensitive(machine, state, this.node, this.op, this.operand, How.COMPARED, node)


def _distributions(machine: Machine, operand: Operand) -> Iterator[Ran]:
    """The runs of softmax or log-softmax from which `operand` was computed."""
    if not isinstance(operand.value, Tensor):
        return
    known = machine[SensitiveRuns].runs
    for symbol in sources(machine, operand.value.symbol):
        if symbol in known and known[symbol].op in _DISTRIBUTIONS:
            yield known[symbol]
