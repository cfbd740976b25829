"""The words of a task as hashed counts: what text policies look at, and what a log may keep of a text instead of it.

The hash is fixed: a change of anything here is a new `features.VERSION`. It has no secret, so that whoever holds the counts can
try out words: see docs/sage/text.md for how much they give away.
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
    """uint8 [256]: of every byte of UTF-8; bytes beyond ASCII are parts of letters."""
    classes = np.full(256, SIGN, np.uint8)
    classes[list(b" \t\n\r\x0b\x0c")] = BLANK
    classes[[*range(ord("a"), ord("z") + 1), *range(128, 256)]] = LETTER
    classes[list(b"0123456789")] = DIGIT
    return classes


def powers(base: int, count: int) -> np.ndarray:
    """uint64 [count]: 1, base, base**2 ... modulo 2**64."""
    factors = np.full(count, base, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


CLASSES = character_classes()
POWERS = powers(SEED, 4 * SCANNED)  # of the bytes, at most four for a character
INVERSES = powers(pow(SEED, -1, 1 << 64), 4 * SCANNED)


def hash_words(text: str) -> np.ndarray:
    """uint16, sorted: bucket * 16 + count, for every bucket that a word, or a pair of neighbours, of the text falls in."""
    words = word_hashes(text[:SCANNED].lower().encode(errors="replace"))
    pairs = mix(words[:-1] * np.uint64(3) + words[1:])
    counts = np.bincount((np.concatenate([words, pairs]) >> np.uint64(52)).astype(np.int64), minlength=BUCKETS)
    filled = np.flatnonzero(counts)
    return (filled * (MOST_COUNTED + 1) + np.minimum(counts[filled], MOST_COUNTED)).astype(np.uint16)


def word_hashes(text: bytes) -> np.ndarray:
    """uint64, one per word, number or sign: a polynomial in its bytes, read off running sums."""
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
    """The finalizer of splitmix64: every bit of the result depends on all bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def words_of(text: str | np.ndarray) -> np.ndarray:
    """The hashed words of a text, or those that were kept of it."""
    return hash_words(text) if isinstance(text, str) else text


def check_words(values: object) -> np.ndarray:
    """The numbers of a record as hashed words; refuses what `hash_words` cannot have given."""
    if not isinstance(values, list | tuple) or not all(type(value) is int and 0 < value < 1 << 16 for value in values):
        raise ValueError(f"words={values!r} must be a list of whole numbers between 1 and 65535, as sage writes them")
    words = np.array(values, np.uint16)
    buckets = words // (MOST_COUNTED + 1)
    if (buckets[1:] <= buckets[:-1]).any() or (words % (MOST_COUNTED + 1) == 0).any():
        raise ValueError("words must rise, each with a count: they are not as sage writes them")
    return words


def word_vector(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The filled buckets (int64) and their values (float32): logs of counts, of length 1 all together."""
    values = np.log1p((words % (MOST_COUNTED + 1)).astype(np.float32))
    length = np.sqrt(values @ values)
    return (words // (MOST_COUNTED + 1)).astype(np.int64), values / length if length > 0 else values
