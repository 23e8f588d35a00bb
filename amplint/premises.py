"""Assumptions that a finding rests on without evidence, and the severity that they leave it.

Errors and warnings require evidence for every premise. A finding with one premise without evidence is an info that
names it. With two of them, or if the finding has no practical consequence in the code at hand, it is dropped unless its
rule was selected explicitly, by its code, a prefix or ALL.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from amplint.findings import Severity

MOST = 1
"""Unseen premises that a finding may rest on if its rule was not selected explicitly."""


class Premise(enum.Enum):
    """An assumption without evidence, worded as the end of a sentence that begins with "where".

    Those in `_SLIGHT` describe what has to hold for the finding to have a practical consequence, or held in less than
    70 % of the unseen code where findings rested on them (docs/precision.md).
    """

    ANOTHER_DEVICE = "the device is of another type"
    REGION_OF_CALLER = "a caller has a region on"
    APPLIED_THERE = "the function is applied there"
    INPUTS_WIDE = "its inputs are float32"
    RUNS_THERE = "the condition around it holds"
    REGION_THERE = "a region is on there"
    SAVED_NOWHERE_ELSE = "the code that trains does not save the scaler's state itself"
    RESUMED = "a later run restores this state"
    MEAN_RETURNED = "the model returns a mean over its batch"
    UNEVEN = "the number of batches is no multiple of the window's, and another epoch follows"
    BFLOAT16_PASSED = "bfloat16 is what is passed or set"
    SCALER_ON = "the caller leaves the scaler on"
    SCALER_PASSED = "a caller passes a scaler"
    HALF_CHOSEN = "a half dtype is what is chosen"
    FLOAT16_MEANT = "float16 is meant to be one of the dtypes"
    FLOAT16_CHOSEN = "float16 is what is chosen"
    BFLOAT16_CHOSEN = "bfloat16 is what is chosen"
    HALF_ALIKE = "the dtype that it takes over is half"
    HALF_THERE = "the tensor is half there"
    LONG = "the range is longer than half counts"
    FAR = "positions reach the hundreds"
    COUNTED = "times count steps and are no fractions"
    MANY = "there are more of them than half tells apart"
    OUT_OF_RANGE = "a number is past 65504"
    DIGITS = "digits count that the dtype does not have"
    WIDE_FIRST = "the first operation on it runs in float32"
    IN_LOSS = "a loss is computed from it"
    AS_TARGET = "what is computed there without gradients is what training compares with"
    BUFFERS_COUNT = "the model keeps positions or statistics in buffers"
    UPDATED = "an optimizer updates these weights"
    OTHER_DTYPE = "the tensor has another dtype"
    OTHER_WANTED = "the dtype asked for is another"
    NOT_REPLACED = "nothing replaces the empty tensor"
    COMPUTED_WITH = "what is converted is computed with"
    PRODUCTS = "the optimizer computes matrix products"
    RUNS_ENGINE = "the model runs the engine that it holds"
    NO_ENGINE = "neither DeepSpeed nor FSDP runs the model"
    CONFIGURED_WITHOUT = "the configuration says nothing of autocast"
    NO_REGION_WITHIN = "the model enters no region by itself"
    SAME_MODEL = "the optimizer updates float32 weights of the model that runs again"
    FLOAT32_WEIGHTS = "the weights are float32"
    FORWARD_FOLLOWS = "a forward pass follows in the region"
    FORWARD_ADDED = "a forward pass is added behind the step"
    HAS_INDEX = "the text has an index, such as in cuda:0"
    OTHER_INDEX = "the index is another than the one that is taken out"
    OLDER_TORCH = "PyTorch is older than 2.4"
    OLD_ON_CPU = "PyTorch is 2.2 or older"
    MOVES_ON_FROM_MMCV = "the project moves on to mmcv 2.0"
    MOVES_ON = "the project moves on to PyTorch 2.4"
    INDEPENDENT = "two conditions of this path are not one setting"
    ALL_INDEPENDENT = "more than two conditions of this path are not one setting"
    SETTING_CHANGES = "a setting changes between two tests of it"
    REACHED_BY_OTHER = "the pass for another optimizer reaches these parameters, too"
    RUNS_ELSEWHERE = "all that runs here can do without CUDA"
    IMPORTS_THERE = "the project has the modules and names that the file imports, itself or through others"
    SWITCHED_ON = "a caller switches it on"
    LEFT_OFF = "a run leaves autocast off"
    SETTING_THERE = "the configuration has the setting that switches it on"
    CALLED_OUTSIDE = "something outside this project calls the function"
    NOTHING_RAISES = "what runs before it raises no exception"
    REFUSED_BEFORE = "the version of the library refuses what is tried before"
    TESTED = "more is meant than a test"
    MEASURED = "more is meant than to measure time or memory"

    @property
    def weight(self) -> int:
        """The number of premises that this one counts as."""
        return 2 if self in _SLIGHT else 1


_SLIGHT = frozenset(
    {
        Premise.MEASURED,
        Premise.TESTED,
        Premise.NOTHING_RAISES,
        Premise.IMPORTS_THERE,
        Premise.CALLED_OUTSIDE,
        Premise.REFUSED_BEFORE,
        Premise.SWITCHED_ON,
        Premise.SETTING_THERE,
        Premise.LEFT_OFF,
        Premise.OTHER_INDEX,
        Premise.MANY,
        Premise.OUT_OF_RANGE,
        Premise.DIGITS,
        Premise.FORWARD_ADDED,
        Premise.FORWARD_FOLLOWS,
        Premise.PRODUCTS,
        Premise.ALL_INDEPENDENT,
        Premise.SETTING_CHANGES,
        Premise.REACHED_BY_OTHER,
        Premise.RESUMED,
        Premise.UNEVEN,
        Premise.BFLOAT16_PASSED,
        Premise.SCALER_ON,
        Premise.FLOAT16_MEANT,
    }
)


def weight(premises: Iterable[Premise]) -> int:
    """The number of premises that these count as together."""
    return sum(premise.weight for premise in set(premises))


def remaining_severity(severity: Severity, premises: Iterable[Premise], *, asked: bool) -> Severity | None:
    """The severity of a finding with these premises, None if it is dropped.

    `severity` applies with evidence for all of them. `asked` says whether the rule was selected explicitly.
    """
    count = weight(premises)
    if count > MOST and not asked:
        return None
    return Severity.INFO if count else severity


def named(premises: Iterable[Premise]) -> str:
    """The premises as a sentence, "" for none."""
    texts = [premise.value for premise in dict.fromkeys(premises)]
    return f"It holds where {' and '.join(texts)}, which is not seen." if texts else ""
