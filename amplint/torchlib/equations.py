"""The operation that `torch.einsum` runs for an equation: matrix products, or an elementwise product."""

from __future__ import annotations


def contracts(equation: str) -> bool | None:
    """Whether every two operands that einsum combines share a summed dimension; None if only some do.

    Dimensions are assumed to be longer than 1: einsum multiplies elementwise along others.
    """
    inputs, arrow, output = equation.replace(" ", "").replace(".", "").partition("->")
    terms = inputs.split(",")
    if not arrow:
        output = "".join(letter for letter in inputs if inputs.count(letter) == 1)
    summed, left = set(), set(terms[0])
    for index, term in enumerate(terms[1:], start=2):
        later = set(output).union(*terms[index:])
        summed.add(bool(left & set(term) - later))
        left = (left | set(term)) & later
    return None if len(summed) > 1 else True in summed
