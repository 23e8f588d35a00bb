"""Attacks on amplint that stay: cases made at random, what must hold of each, and what makes a failing one small.

A short run is part of the tests; `python -m tests.fuzz --minutes 30` is a long one.
"""
