"""The base class of rules: metadata, event handlers, fixes; and the registry that plug-ins extend.

A rule is a subclass of `Rule`. Its docstring is its documentation page. Each method named `on_<event>` handles the
events of that name (`on_unscale` handles `semantics.events.Unscale`) and yields reports; `fix` returns the edits that
repair one of them. Rules are found through the entry-point group `amplint.rules`: an entry names a package, whose
modules are imported and whose `Rule` subclasses are registered.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from amplint.claims import Claim as Claim
from amplint.claims import Sign as Sign
from amplint.findings import Applicability, Fix, Severity
from amplint.installed import entry_points
from amplint.premises import Premise
from amplint.records import dataclass

if TYPE_CHECKING:
    from types import ModuleType

    from amplint.semantics.events import Event
    from amplint.source import syntax as cst
    from amplint.source.rewrite import Rewriter

ENTRY_POINT_GROUP = "amplint.rules"
DOCS_URL = "https://amplint.github.io/rules"

Screen = tuple[bytes | tuple[bytes, ...] | re.Pattern[bytes], ...]


@dataclass(frozen=True, slots=True)
class Report:
    """A rule's report of one event, before positions and edits are computed.

    `at` is the node to mark if it is not the event's own; `notes` are (node, message) pairs in execution order;
    `severity` defaults to the rule's own. `claims` are what a run shows at the event. `besides` are further events that
    the report depends on, `premises` what it takes for granted without evidence. A report `on_one_path` is kept where a
    rule with `every_path` does not report the others.
    """

    rule: Rule
    event: Event
    message: str
    reason: str
    advice: str
    at: cst.CSTNode
    notes: tuple[tuple[cst.CSTNode, str], ...]
    severity: Severity
    claims: tuple[Claim, ...]
    besides: tuple[Event, ...]
    premises: tuple[Premise, ...]
    on_one_path: bool = False


class Rule:
    """Base of all rules.

    `screen` lists bytes without which the rule cannot fire: every item must occur in the file; a tuple needs any one of
    its members, a pattern must match. With `every_path` a report is kept only if the handler reported the node on every
    execution path that reaches it. `fixable` is the best applicability of `fix`, for tables and help. With
    `only_fixable` a report without a fix is dropped. With `once` the rule has one finding per file, at the first place,
    with the others as notes. With `configs` it also handles events of configuration files. With `applies_to_bfloat16`
    it has findings in bfloat16 where it has none in float16.

    With `fix_fits_one_dtype` its repair serves one half dtype at the cost of the other, so that findings have none
    where the script chooses between both.

    `assumed` is the screen of a rule that, if it is selected by name, prefix or ALL, also reports what would happen in
    half precision to tensors of unknown dtype; the words in it are the calls that then matter. Such reports are infos.

    `of_callers` are the kinds of its events that are for other files to answer; a conversion does not ask for them.

    A rule that holds `anywhere` keeps its severity in tests and in scripts that only measure, where others lose theirs.
    What a rule reports that is `only_numbers` raises nothing and changes results, which nobody reads in scripts that
    only measure: its errors are infos there.

    A report is dropped if a rule whose code is in `yields_to` reports the same event or the same node, unless this rule
    was selected explicitly: the two describe one mistake.

    `goes_by` names the fields of events that the rule depends on among those that a guess alone can decide
    (`Guessed.about`). `claims` are the observations of a run, any of which confirms a finding (`check --trace`); they
    are about the event's operation if they name none.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    screen: ClassVar[Screen]
    reason: ClassVar[str] = ""
    every_path: ClassVar[bool] = False
    default: ClassVar[bool] = True
    assumed: ClassVar[Screen] = ()
    fixable: ClassVar[Applicability | None] = None
    only_fixable: ClassVar[bool] = False
    once: ClassVar[bool] = False
    configs: ClassVar[bool] = False
    applies_to_bfloat16: ClassVar[bool] = False
    fix_fits_one_dtype: ClassVar[bool] = False
    anywhere: ClassVar[bool] = False
    only_numbers: ClassVar[bool] = False
    of_callers: ClassVar[tuple[str, ...]] = ()
    yields_to: ClassVar[tuple[str, ...]] = ()
    goes_by: ClassVar[tuple[str, ...]] = ()
    claims: ClassVar[tuple[Claim, ...]] = ()

    def report(
        self,
        event: Event,
        message: str,
        *,
        advice: str = "",
        reason: str = "",
        at: cst.CSTNode | None = None,
        notes: Iterable[tuple[cst.CSTNode, str]] = (),
        severity: Severity | None = None,
        claims: tuple[Claim, ...] | None = None,
        besides: Iterable[Event] = (),
        premises: Iterable[Premise] = (),
        on_one_path: bool = False,
    ) -> Report:
        """Report `event` as a problem, together with the events `besides` that it depends on.

        `severity` overrides the rule's severity, `claims` the rule's claims.
        `premises` are assumptions without evidence, in addition to those of the events;
        `premises.remaining_severity` derives the severity of the finding from them.
        """
        where, weight = at or event.node, severity or self.severity
        op = getattr(event, "op", "")
        shown = [replace(one, ops=one.ops or (op,) * bool(op)) for one in (self.claims if claims is None else claims)]
        unseen = dict.fromkeys((*premises, *(one for other in (event, *besides) for one in other.premises)))
        why, evidence = reason or self.reason, (tuple(notes), weight, tuple(shown), tuple(besides), tuple(unseen))
        return Report(self, event, message, why, advice, where, *evidence, on_one_path)

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        """The edits that repair `event`, None if no repair is certain."""
        return None

    @classmethod
    @functools.cache
    def handlers(cls) -> Mapping[str, str]:
        """Event kind -> method name, for every `on_<kind>` method."""
        return {name[3:]: name for name in dir(cls) if name.startswith("on_")}

    @classmethod
    def page(cls) -> str:
        """The documentation page: the docstring without its indentation."""
        return inspect.getdoc(cls) or ""

    @classmethod
    def summary(cls) -> str:
        """The first line of the page."""
        return cls.page().partition("\n")[0]

    @classmethod
    def url(cls) -> str:
        """The address of the published page."""
        return f"{DOCS_URL}/{cls.code}"


Handler = Callable[[Any], Iterator[Report]]


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """An entry point that failed to load, and the reason."""

    name: str
    why: str


class Registry:
    """All known rules by code, and the plug-ins that failed to load."""

    def __init__(self) -> None:
        self.rules: dict[str, type[Rule]] = {}
        self.broken: list[BrokenPlugin] = []

    def add(self, rule: type[Rule]) -> None:
        """Register `rule`. Raises ValueError if its code or name is taken by another class."""
        for known in self.rules.values():
            if known is not rule and (known.code == rule.code or known.name == rule.name):
                raise ValueError(f"{rule.__module__}: {rule.code} {rule.name} clashes with {known.__module__}")
        self.rules[rule.code] = rule

    def find(self, code_or_name: str) -> type[Rule] | None:
        """The rule with this code or name, None if there is none."""
        wanted = code_or_name.strip()
        by_name = (rule for rule in self.rules.values() if rule.name == wanted.lower())
        return self.rules.get(wanted.upper()) or next(by_name, None)

    def load(self) -> Registry:
        """Load every entry point of the group; failures are recorded in `broken`.

        amplint's own rules are loaded the same way, also in a checkout that is not installed.
        """
        entries = entry_points(ENTRY_POINT_GROUP)
        if not entries:
            self.broken.append(BrokenPlugin("amplint.rules", "amplint is not installed (pip install -e .)"))
        for entry in sorted(entries, key=lambda e: e.name):
            try:
                for rule in _rules_of(entry.load()):
                    self.add(rule)
            except (Exception, SystemExit) as failure:
                self.broken.append(BrokenPlugin(entry.name, f"{type(failure).__name__}: {failure}"))
        self.rules = dict(sorted(self.rules.items()))
        return self


def _rules_of(package: ModuleType) -> Iterator[type[Rule]]:
    modules = [package]
    for found in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + "."):
        modules.append(importlib.import_module(found.name))
    for module in modules:
        for value in vars(module).values():
            own = isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__
            if own and hasattr(value, "code"):
                yield value
