"""Events and findings of many programs are those that are kept; `python -m tests.golden --update` keeps new ones."""

from __future__ import annotations

import pytest

from tests.golden.corpora import Corpus, corpora
from tests.golden.goldens import FOLDER, differences, path_of

CORPORA = list(corpora())


@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: corpus.name)
def test_nothing_has_changed(corpus: Corpus) -> None:
    changed = "\n".join(differences(corpus))
    assert not changed, f"\n{changed}"


def test_every_file_is_of_a_corpus() -> None:
    assert set(FOLDER.rglob("*.txt")) == set(map(path_of, CORPORA))
