"""Guesses by name: each is needed, stops where it should, and stands with the others."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from amplint.semantics import words
from amplint.semantics.words import GUESSES, Guess

SEMANTICS = Path(words.__file__).parent

IN_SOURCE = {
    "api_uses.py": ["_NATIVE_IMPORT"],
    "averages_alike.py": ["_COMPLEMENT", "_WIDE"],
    "assigned.py": ["_GIVEN", "_PASSED", "_RETURNED"],
    "chosen_devices.py": [
        "_BY_AVAILABILITY", "_CATERS_FOR_OTHERS", "_CHOICE", "_DEVICES", "_FIXED", "_LISTED", "_MAKES_DEVICE",
        "_OF_FUNCTION", "_OF_VARIABLE", "_ON_CUDA", "_TRAINS",
    ],
    "cuda_needs.py": ["_INDENTED", "_KERNELS", "_MENTIONS_CUDA", "_NEEDS_CUDA"],
    "device_conditions.py": [
        "_AMP", "_ASKED", "_CONDITION", "_DEVICE_WORDS", "_IS_FLOAT16", "_IS_MPS", "_NOT_CPU", "_PATH", "_PRESENCE",
        "_SCALER_GIVEN",
    ],
    "cancelling.py": ["_COLUMNS", "_OF_SQUARES", "_SIDES_MULTIPLIED"],
    "cast_back.py": ["_PRECISE", "_PRODUCT"],
    "clashes.py": ["_LOADS_HALF", "_WHOLE_LIFTED"],
    "coarse_frequencies.py": ["_MAKES_FREQUENCIES", "_TYPED"],
    "reads.py": ["_INERT"],
    "custom_functions.py": ["_EXCHANGES", "_SIGNS"],
    "decorators.py": ["_ABSTRACT", "_SET_FROM_OUTSIDE"],
    "deepspeed.py": ["_BLOCK", "_ONE_EACH", "_PASSES_LOSS"],
    "device_types.py": ["_INDEXED"],
    "discards.py": ["_DISCARDED"],
    "frozen.py": ["_FROZEN", "_THAWED"],
    "stale_copies.py": ["_RECOMPUTES"],
    "display.py": ["_REAL", "_REFERENCE"],
    "divisors.py": ["_MAY_DIVIDE"],
    "evidence.py": ["_BFLOAT16", "_COMMENT", "_FLOAT16"],
    "gathered.py": ["_MADE", "_READ"],
    "grown.py": ["_GROWS", "_OVER_PARAMETERS"],
    "hydra.py": ["_PACKAGE"],
    "inference.py": ["_DIFFERENTIATES", "_INFERS", "_STARTS"],
    "kernel_sums.py": ["_ZERO"],
    "layers.py": ["_HALVED", "_RECURS"],
    "lifted_results.py": ["_LIFTS", "_SPEAKS"],
    "lists.py": ["CHOOSES_NUMBERS", "_LIST"],
    "micro_batches.py": ["_ENTERS", "_SET_LATER"],
    "subregions.py": ["_SWITCHED_OFF"],
    "models.py": ["_CASTS_ITSELF", "_RUNS_LOOP", "_TRAINS", "_WORKS"],
    "norms.py": ["_LAYER", "_MADE"],
    "off_inputs.py": ["_CONVERTS"],
    "outside.py": ["_DIFFERENTIATES", "_EVALUATES", "_IMPORTS", "_SHARDS", "_SPEAKS_OF_HALF"],
    "scopes.py": [
        "EXTREME_NUMBER", "_CALLED", "_CALLED_OF_SELF", "_CLASS", "_GRADIENT", "_IMPORTED",
        "_LIBRARY_IMPORT", "_METHOD", "_MODEL_NAME", "_NAME_BEFORE", "_NUMBER_BOUND", "_OPTIMIZES", "_PASSED_ON",
        "_RENAMED", "_RESTORES_SCALER", "_SAVES_SCALER", "_SAVING", "_SCALED", "_SWITCHES", "_THREAD_TARGET",
        "_TYPED_POSITIONS", "_UNSCALES",
    ],
    "segments.py": ["_NOTHING_TO_CAST"],
    "sharding.py": ["_BUFFERS", "_MODULES"],
    "tensors.py": ["_WIDENS"],
    "threads.py": ["_REGIONS"],
    "traits.py": ["_CONVERTS"],
    "uncleared.py": ["_COMMENT", "_DEFINITION"],
    "parameters.py": ["_WITH_DTYPE"],
    "uniform.py": ["_FOLLOWS"],
    "unlifted_losses.py": ["_REGION"],
    "whole_losses.py": ["_STEPS"],
    "emission.py": ["_STATIC_GRAPH"],
}  # fmt: skip
"""Patterns of semantics that look for syntax, for paths, or for words of an API in the text of a file."""


def test_each_guess_is_defined_once() -> None:
    tree = ast.parse(Path(words.__file__).read_text())
    names = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    assert sorted(set(names)) == sorted(names)


by_name = pytest.mark.parametrize("guess", GUESSES, ids=lambda guess: guess.name)


def verdicts(pattern: str, guess: Guess) -> list[bool]:
    return [re.search(pattern, name) is not None for name in guess.examples + guess.counterexamples]


def shortened(pattern: str) -> Iterator[tuple[str, str]]:
    """Each alternative in `pattern`, with the pattern that is left without it."""
    flags = "(?i)" if pattern.startswith("(?i)") else ""
    text = pattern.removeprefix(flags)
    groups = [[-1]]
    ended: list[list[int]] = []
    for token in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|[(|)]", text):
        if token[0] == "(":
            head = re.compile(r"\((?:\?(?:[:=!]|<[=!]|i:))?").match(text, token.start())
            assert head is not None
            groups.append([head.end() - 1])
        elif token[0] == "|":
            groups[-1].append(token.start())
        elif token[0] == ")":
            ended.append([*groups.pop(), token.start()])
    ended.append([*groups.pop(), len(text)])
    assert not groups
    for bounds in ended:
        for start, end in itertools.pairwise(bounds):
            if len(bounds) > 2:
                first = start == bounds[0]
                left = text[: start + 1] + text[end + 1 :] if first else text[:start] + text[end:]
                yield text[start + 1 : end], flags + left


def constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield ast.unparse(target), statement.value


def is_compiled(value: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "regex") for node in ast.walk(value)
    )


@by_name
def test_a_guess_matches_its_examples_alone(guess: Guess) -> None:
    found = {name: guess.search(name) is not None for name in guess.examples + guess.counterexamples}
    assert found == dict.fromkeys(guess.examples, True) | dict.fromkeys(guess.counterexamples, False)
    assert guess.examples
    assert guess.counterexamples


@by_name
def test_every_alternative_of_a_guess_is_needed(guess: Guess) -> None:
    before = verdicts(guess.pattern, guess)
    needless = [alternative for alternative, left in shortened(guess.pattern) if verdicts(left, guess) == before]
    assert not needless, "give an example that needs it, or drop it"


def test_alternatives_are_found() -> None:
    assert dict(shortened(r"(?i)a|b(?:c|[|)]\|)")) == {
        "a": r"(?i)b(?:c|[|)]\|)",
        r"b(?:c|[|)]\|)": "(?i)a",
        "c": r"(?i)a|b(?:[|)]\|)",
        r"[|)]\|": "(?i)a|b(?:c)",
    }


def test_guesses_say_different_things() -> None:
    for told in ("name", "pattern"):
        values = [getattr(guess, told) for guess in GUESSES]
        assert len(values) == len(set(values)), told
    assert all(guess.because.endswith(".") for guess in GUESSES)


def test_no_other_pattern_decides_by_name() -> None:
    found = {
        path.name: sorted(name for name, value in constants(ast.parse(path.read_text("utf-8"))) if is_compiled(value))
        for path in SEMANTICS.rglob("*.py")
    }
    assert {name: names for name, names in found.items() if names} == IN_SOURCE


def test_no_word_is_looked_for_in_names_elsewhere() -> None:
    """A search for words in a name needs it in lower case, sooner or later."""
    lowered = re.compile(r"\.(?:lower|casefold)\(\)")
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(SEMANTICS.rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if lowered.search(line)
    ]
    assert found == [
        'base.py: cls.kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()',
        "layers.py: clashes.check_layer(machine, state, node, name.lower(), operand, own, refusal)",
        'layers.py: op, place = called.cls.rpartition(".")[2].lower(), (argument.node.value, value)',
        "words.py: lowered = text.lower()",
    ]


def test_every_guess_is_used() -> None:
    users = [path for path in SEMANTICS.parent.rglob("*.py") if path != Path(words.__file__)]
    used = set(re.findall(r"\w+", "".join(path.read_text("utf-8") for path in users)))
    assert {name for name, value in vars(words).items() if isinstance(value, Guess)} <= used


@pytest.mark.parametrize("guess", [guess for guess in GUESSES if guess.stems], ids=lambda guess: guess.name)
def test_a_pattern_is_found_in_texts_by_its_stems(guess: Guess) -> None:
    assert all(guess.occurs(f"x\n  {example}\n") for example in guess.examples)
    assert not any(map(guess.occurs, guess.counterexamples))
