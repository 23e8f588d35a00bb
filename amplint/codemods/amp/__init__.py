"""`--to amp`: a float32 training loop in mixed precision."""

from __future__ import annotations

import re

from amplint.codemods.amp import devices, limits, managed, notes, sharded
from amplint.codemods.amp.scalers import Scalers
from amplint.codemods.conversion import Change, Plan, Remark, Wish
from amplint.codemods.editing import remarks_on
from amplint.codemods.flags import Flag
from amplint.codemods.logits import to_logits
from amplint.codemods.options import SWITCH
from amplint.codemods.rows import row_edited
from amplint.codemods.writers.gathering import assign_argument, assign_losses, assign_outputs, separate_regions
from amplint.codemods.writers.protocol import Protocol
from amplint.codemods.writers.regions import Regions
from amplint.findings import Fix
from amplint.fixes.apply import apply_round
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.torchlib.names import SUMMARIES, WRITERS_WITHOUT_BFLOAT16
from amplint.training.flow import Flow, PassedForward
from amplint.training.observed import Goal, Observed, observe
from amplint.training.refusal import Refusal
from amplint.training.script import Script, parsed
from amplint.training.surroundings import modules, whole_program

REPAIRS = (
    "scaler-not-checkpointed",
    "unscaled-gradient-penalty",
    "bce-in-autocast",
    "constant-overflows-half",
    "constant-vanishes-in-half",
    "cross-entropy-keeps-half",
    "loss-in-half",
    "square-overflows-half",
    "accumulation-in-half",
    "unsupported-half-op",
    "dtype-mismatch-after-autocast",
    "bfloat16-to-numpy",
    "scheduler-after-skipped-step",
)
"""The rules whose fixes complete the conversion: code that is right in float32 and wrong in mixed precision."""


_MAKES_OPTIMIZER = re.compile(r"\boptim\.[A-Z]\w+\(|\b(?:Adam|AdamW|SGD|RMSprop)\(")
_MOVES = re.compile(r"cuda|device|gpu|accelerator|\.to\(|xpu|mps", re.IGNORECASE)


_ALIAS = re.compile(r"^import[ \t](?:[\w. \t]+,)*?[ \t]*torch[ \t]+as[ \t]+(\w+)[ \t]*(?:[,#]|$)", re.MULTILINE)
_PLAIN = re.compile(r"^[ \t]*import[ \t]+torch(?:\.\w+)*[ \t]*(?:[,#]|$)", re.MULTILINE)


def plan(text: str, wish: Wish, path: str) -> Plan:
    """Add regions around forward passes and losses, and for float16 a scaler; empty if the script has either."""
    trains = ".backward(" in text or "optimizer_step" in text
    if not trains and not managed.may_be(text):
        return Plan()
    script = parsed(text, path)
    try:
        return managed.plan(script, wish.dtype) or (_planned(script, wish) if trains else Plan())
    except Refusal as refusal:
        return Plan(refused=remarks_on(refusal, script))


def _planned(script: Script, wish: Wish) -> Plan:
    scales = wish.dtype == "float16"
    observed = observe(script, Goal.SCALER if scales else Goal.REGIONS)
    if observed.mixed:
        own = "autocast" in script.text or "GradScaler" in script.text
        elsewhere = "autocast stands in another file that this one leads to; see whether it covers this backward pass"
        return Plan(left=() if own else tuple(Remark(script.row(one), elsewhere) for one in observed.backwards[:1]))
    shards = sharded.sharded(script)
    if sharded.is_decided(script, shards):
        return Plan()
    limits.check(script, observed, scales=scales, sharded=bool(shards))
    if not observed.backwards:
        return Plan()
    moved = to_logits(script, observed.calls) if wish.device != "cpu" else None  # autocast on CPUs supports both
    moved = moved or assign_losses(script, observed.losses)
    if moved is not None:
        return Plan((moved,))
    flow = Flow(script, observed)
    try:
        regions = Regions(script, observed, flow, exits=True)
    except PassedForward as refusal:
        return Plan((assign_argument(script, refusal),))
    moved = assign_outputs(script, regions) or separate_regions(script, flow, regions)
    if moved is not None:
        return Plan((moved,))
    flag = Flag(script, observed.calls, SWITCH) if wish.add_flag else None
    if shards and flag is not None:
        raise Refusal(shards[0].node, "a policy is no switch: sharded models are converted without --add-flag")
    policies = sharded.policies(script, shards, wish.dtype)
    torch = _name_of_torch(script)
    edits = [*policies.edits]
    done = [*policies.done]

    def switch(place: cst.CSTNode) -> str:
        return f", enabled={flag.at(place)}" if flag is not None else ""

    passed: list[cst.FunctionDef] = []
    accepted: tuple[str, ...] = ()
    if scales:

        def construction(below: cst.CSTNode) -> str:
            made = policies.scaler.replace("torch.", f"{torch}.", 1)
            return f"{made}({devices.spell(script, observed.calls, wish.device, below)}{switch(below)})"

        scalers = Scalers(script, observed, construction)
        protocol = Protocol(script, observed, scalers.at)
        scalers.pass_with_state()
        edits += [*scalers.edits, *protocol.edits]
        passed = scalers.passed
        accepted = ("unscale-after-step",) if protocol.late else ()
        done += [*(Remark(row, "make or hand on the scaler") for row in scalers.rows), *protocol.done]

    def header(place: cst.CSTNode) -> str:
        device = devices.spell(script, observed.calls, wish.device, place)
        return f"{torch}.autocast(device_type={device}, dtype={torch}.{wish.dtype}{switch(place)})"

    wrapped = list(regions.edits(header))
    edits += [*(flag.edits if flag is not None else ()), *wrapped]
    done += flag.done if flag is not None else []
    done += [Remark(row, "run the forward pass in an autocast region") for row in regions.rows()]
    done.sort(key=lambda remark: remark.row)
    imports = (
        *(["import torch"] if torch == "torch" else []),
        *(flag.imports if flag is not None else ()),
        *policies.imports,
    )
    if regions.exits is not None:
        edits += regions.exits.edits(edits, imports, torch)
        imports = (*imports, *regions.exits.imports)
    fix = Fix("Train in mixed precision", tuple(edits), imports=imports)
    new, _ = apply_round(script.text, [fix])

    def at(row: int, text: str) -> Remark:
        return Remark(row_edited(script.text, new, fix.edits, row), text)

    takes = "() can be given half tensors here; make sure that it takes them"
    anew = "each call makes a scaler, which has to find its scale anew; pass one for all of them"
    unseen = "this runs the model and computes a loss out of sight; see that what half rounds is float32 there"
    idle = "nothing here moves to CUDA, where alone this takes effect; --device cpu is for CPUs"
    named: list[tuple[cst.CSTNode, str]] = [(one, anew) for one in passed]
    named += [(call, unseen) for call in flow.unseen if flow.gives_loss(call)]
    named += notes.of_scaler(script, observed) if scales else ()
    named += notes.in_float32(script, observed, flow, regions)
    named += [(one, f"{refusal.why}; what computes it stays float32") for one, refusal in regions.alone.items()]
    named += notes.losses_out_of_sight(script, observed, regions)
    plots = SUMMARIES if scales or WRITERS_WITHOUT_BFLOAT16 not in script.text else frozenset[str]()
    given = [(row, name) for row, name in regions.foreign_calls() if name.rpartition(".")[2] not in plots]
    left = [at(row, name + takes) for row, name in given] + [at(script.row(node), why) for node, why in named]
    sources = whole_program(script.source).sources
    stays = _MAKES_OPTIMIZER.search(script.text) and not any(_MOVES.search(one.text) for one in sources)
    if wish.device == "cuda" and stays and not any(_is_given(script, observed, one) for one in observed.forwards):
        left.append(at(regions.rows()[0], idle))
    change = Change(fix, tuple(done), tuple(left))
    return Plan((change,), repairs=REPAIRS, accepted=accepted, half=wish.dtype, complete=True)


def _is_given(script: Script, observed: Observed, forward: cst.CSTNode) -> bool:
    """Whether a forward pass runs a model that its function is given by other files, which have moved it by then."""
    function, name = script.function_of(forward), dotted(forward.func) if isinstance(forward, cst.Call) else None
    if function is None or name is None or script.parameter(function, name) is None:
        return False
    return not observed.calls.callers(function)


def _name_of_torch(script: Script) -> str:
    """The file's alias of PyTorch, if it has only one, also of what it imports by `*`; else `torch`."""
    if _PLAIN.search(script.text) is not None:
        return "torch"
    aliases = set(_ALIAS.findall(script.text))
    for module in script.source.star_imports if script.path and not aliases else ():
        place = modules().folders.place(script.path, module)
        behind = modules().contents.source(place) if place is not None else None
        if behind is not None and _PLAIN.search(behind.text) is None:
            aliases |= set(_ALIAS.findall(behind.text)) & script.words
    return aliases.pop() if len(aliases) == 1 else "torch"
