"""Hashed words: fixed by value, as checkpoints and logs depend on them."""

import numpy as np
import pytest

from sage.words import BUCKETS, SCANNED, check_words, hash_words, word_hashes, word_vector, words_of


def test_the_hash_is_fixed() -> None:
    assert hash_words("Fix the parser in app.py: 12 + 345 items").tolist()[:8] == [
        *(241, 4209, 4289, 6545, 7761, 15777, 19905, 20785)
    ]
    assert hash_words("é 世界 x").tolist() == [1089, 12337, 14561, 32113, 35777]  # three words and two pairs
    assert hash_words("").tolist() == []


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a  Word", "a word\n", True),  # letters are lowered, blanks do not count
        ("12 apples", "97 apples", True),  # numbers count by their length
        ("12 apples", "123 apples", False),
        ("123456 x", "1234567 x", True),  # up to five digits
        ("a b", "b a", False),  # a pair is in order
        ("ab", "a b", False),
    ],
)
def test_what_makes_a_word(one: str, other: str, same: bool) -> None:
    assert (hash_words(one).tolist() == hash_words(other).tolist()) is same


def test_words_are_the_same_wherever_they_stand() -> None:
    alone, after = word_hashes(b"parser"), word_hashes(b"fix the parser!")
    assert alone[0] == after[2]
    assert len(after) == 4  # the sign is a word of its own


def test_counts_end_at_fifteen_and_long_texts_are_cut() -> None:
    words = hash_words("a " * 10_000)
    assert (words % 16).tolist() == [15, 15]  # the word and the pair
    assert hash_words("a" * SCANNED + " never read").tolist() == hash_words("a" * SCANNED).tolist()
    assert len(hash_words("\ud800 İ" * SCANNED)) > 0  # whatever Python holds as text


def test_a_vector_has_length_one() -> None:
    buckets, values = word_vector(hash_words("one two two"))
    assert buckets.max() < BUCKETS
    assert values @ values == pytest.approx(1.0)
    assert sorted(values.tolist())[-1] == pytest.approx(np.log(3) / np.sqrt(np.log(3) ** 2 + 3 * np.log(2) ** 2))
    assert word_vector(hash_words(""))[1].tolist() == []


def test_kept_words_are_taken_as_they_are() -> None:
    words = hash_words("some text")
    assert words_of("some text").tolist() == words_of(words).tolist() == check_words(words.tolist()).tolist()


@pytest.mark.parametrize("values", ["17", [17.0], [True], [0], [1 << 16], [33, 17], [16], [17, 18]])
def test_numbers_that_are_no_words_are_refused(values: object) -> None:
    with pytest.raises(ValueError, match="as sage writes them"):
        check_words(values)
