"""The words of a task as hashed counts: the input of text policies, and the form in which a log may keep a text.

The hash is fixed: a change of anything here needs a new `features.VERSION`. It uses no secret, so anybody who has the
counts can test guesses of words; docs/sage/text.md says how much the counts reveal.
"""

from __future__ import annotations

import numpy as np

BUCKETS = 4096
MOST_COUNTED = 15
SCANNED = 4000  # characters: the rest of a longer text is not looked at
MOST_DIGITS = 5  # numbers count by their length, up to this
BLANK, LETTER, DIGIT, SIGN = range(4)
SEED = 0x9E3779B97F4A7C15


def character_classes() -> np.ndarray:
    """Returns uint8 [256]: the class of every byte of UTF-8 (BLANK, LETTER, DIGIT, SIGN).

    Non-ASCII bytes count as letters.
    """
    classes = np.full(256, SIGN, np.uint8)
    classes[list(b" \t\n\r\x0b\x0c")] = BLANK
    classes[[*range(ord("a"), ord("z") + 1), *range(128, 256)]] = LETTER
    classes[list(b"0123456789")] = DIGIT
    return classes


def powers(base: int, count: int) -> np.ndarray:
    """Returns uint64 [count]: 1, base, base**2, ... modulo 2**64."""
    factors = np.full(count, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


CLASSES = character_classes()
POWERS = powers(SEED, 4 * SCANNED)  # of the bytes, at most four for a character
INVERSES = powers(pow(SEED, -1, 1 << 64), 4 * SCANNED)


def hash_words(text: str) -> np.ndarray:
    """Returns the hashed words of a text: sorted uint16 [k], `bucket * 16 + count` for each bucket that is not empty.

    Every word and every pair of adjacent words falls into one of 4,096 buckets. Case is ignored, counts stop at 15,
    and only the first 4,000 characters are read.
    """
    words = word_hashes(text[:SCANNED].lower().encode(errors="replace"))
    pairs = mix(words[:-1] * np.uint64(3) + words[1:])
    counts = np.bincount((np.concatenate([words, pairs]) >> np.uint64(52)).astype(np.int64), minlength=BUCKETS)
    filled = np.flatnonzero(counts)
    return (filled * (MOST_COUNTED + 1) + np.minimum(counts[filled], MOST_COUNTED)).astype(np.uint16)


def word_hashes(text: bytes) -> np.ndarray:
    """Returns a uint64 hash for every word, number and sign in a lower-case UTF-8 text, in order.

    Blanks are left out, and numbers are hashed by their number of digits, up to five.
    """
    codes = np.frombuffer(text, np.uint8)
    classes = CLASSES[codes]
    begins = np.ones(len(codes), bool)
    begins[1:] = (classes[1:] != classes[:-1]) | (classes[1:] == SIGN)
    start = np.flatnonzero(begins)
    end = np.append(start[1:], len(codes))[: len(start)]
    kept = classes[start] != BLANK
    start, end = start[kept], end[kept]
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum((codes + np.uint64(1)) * POWERS[: len(codes)], out=sums[1:])
    values = (sums[end] - sums[start]) * INVERSES[start]
    is_number = classes[start] == DIGIT
    values[is_number] = np.minimum(end - start, MOST_DIGITS)[is_number].astype(np.uint64)
    return mix(values)


def mix(values: np.ndarray) -> np.ndarray:
    """Returns uint64 values after the finalizer of splitmix64, in which every bit depends on all bits of the input."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def words_of(text: str | np.ndarray) -> np.ndarray:
    """Returns the hashed words of a text, as `hash_words` does; hashed words are returned unchanged."""
    return hash_words(text) if isinstance(text, str) else text


def check_words(values: object) -> np.ndarray:
    """Returns the numbers of a record as hashed words (uint16).

    Raises ValueError if `hash_words` cannot have made them.
    """
    if not isinstance(values, list | tuple) or not all(type(value) is int and 0 < value < 1 << 16 for value in values):
        raise ValueError(f"words={values!r} must be a list of whole numbers between 1 and 65535, as sage writes them")
    words = np.array(values, np.uint16)
    buckets = words // (MOST_COUNTED + 1)
    if (buckets[1:] <= buckets[:-1]).any() or (words % (MOST_COUNTED + 1) == 0).any():
        raise ValueError("words must rise, each with a count: they are not as sage writes them")
    return words


def word_vector(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the non-empty buckets (int64 [k]) of hashed words, and their values (float32 [k]).

    Values are log(1 + count), scaled so that the vector has length 1; both arrays are empty if there are no words.
    """
    values = np.log1p((words % (MOST_COUNTED + 1)).astype(np.float32))
    length = np.sqrt(values @ values)
    return (words // (MOST_COUNTED + 1)).astype(np.int64), values / length if length > 0 else values
