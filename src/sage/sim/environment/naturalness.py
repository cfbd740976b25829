"""Naturalness of code in its program: a model of sequences of tokens, and the gain of an edit by it.

Code repeats itself, and bugs are where it does not (Hindle et al. 2012, "On the naturalness of software"; Ray et al.
2016, "On the naturalness of buggy code"). So an edit that makes a line more like the rest of the program is tried
before others.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

from sage.sim.tasks.mutations import Edit

ORDER = 4  # tokens that are looked at together
UNSEEN = 1000  # words that could come and are not in the program
MOST_GAIN = 3.0  # of the mean log probability of a line's tokens; gains are shares of it, from -1 to 1
TOKEN = re.compile(
    rb"(?P<comment>\#[^\n]*)|(?P<line>\n\s*)|(?P<text>\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"(?:\\.|[^\"\\\n])+\"|'(?:\\.|[^'\\\n])+')"
    rb"|[A-Za-z_]\w*|\d[\w.]*|\*\*=?|//=?|->|<<|>>|[-+*/%&|^=!<>]=|[^\s\w]"
)


def tokens_of(content: bytes) -> tuple[list[int], list[bytes]]:
    """Returns byte offsets and tokens; comments are left out, a string is one token whatever its text, and so are the
    ends of several lines."""
    offsets, tokens = [], []
    for match in TOKEN.finditer(content):
        if match["comment"] is not None or (match["line"] is not None and tokens[-1:] == [b"\n"]):
            continue
        offsets.append(match.start())
        tokens.append(b"\n" if match["line"] is not None else b"''" if match["text"] is not None else match[0])
    return offsets, tokens


class Language:
    """Counts of the sequences of tokens in a program."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = {path: content for path, content in files.items() if path.endswith(".py")}
        self.tokens = {path: tokens_of(content) for path, content in self.files.items()}
        self.counts: Counter[tuple[bytes, ...]] = Counter()
        for _, tokens in self.tokens.values():
            self.counts.update(sequences(tokens, 0))
        self.after: Counter[tuple[bytes, ...]] = Counter()  # how many tokens follow
        self.kinds: Counter[tuple[bytes, ...]] = Counter()  # how many different ones
        for sequence, count in self.counts.items():
            self.after[sequence[:-1]] += count
            self.kinds[sequence[:-1]] += 1

    def gain(self, path: str, edit: Edit) -> float:
        """Returns how much more usual an edit makes its lines, from -1 to 1; the lines as they are now do not count for
        themselves."""
        content, (offsets, tokens) = self.files[path], self.tokens[path]
        start = content.rfind(b"\n", 0, edit.start) + 1
        end = content.find(b"\n", edit.end)
        end = len(content) if end < 0 else end
        first, last = bisect_left(offsets, start), bisect_left(offsets, end)
        edited = content[start : edit.start] + edit.replacement.encode() + content[edit.end : end]
        before, beyond = tokens[max(first - ORDER + 1, 0) : first], tokens[last : last + ORDER - 1]
        own = Counter(sequences([*before, *tokens[first:last], *beyond], len(before)))
        own_after: Counter[tuple[bytes, ...]] = Counter()
        for sequence, count in own.items():
            own_after[sequence[:-1]] += count

        def mean(line: Sequence[bytes]) -> float:
            words = [*before, *line, *beyond]
            found = [
                math.log(self.probability(words[max(i - ORDER + 1, 0) : i + 1], own, own_after))
                for i in range(len(before), len(words))
            ]
            return sum(found) / max(len(found), 1)

        gained = mean(tokens_of(edited)[1]) - mean(tokens[first:last])
        return max(-1.0, min(gained / MOST_GAIN, 1.0))

    def probability(self, words: Sequence[bytes], own: Counter, own_after: Counter) -> float:
        """Returns the probability of the last word after the others, by Witten and Bell: shorter sequences help if
        longer ones are rare. `own` are the counts of the line itself, which are subtracted."""
        found = 1 / (self.kinds[()] + UNSEEN)
        for length in range(1, len(words) + 1):
            sequence = tuple(words[-length:])
            total = self.after[sequence[:-1]] - own_after[sequence[:-1]]
            if total <= 0:
                break
            kinds = self.kinds[sequence[:-1]]
            found = (max(self.counts[sequence] - own[sequence], 0) + kinds * found) / (total + kinds)
        return found


def sequences(tokens: Sequence[bytes], start: int) -> list[tuple[bytes, ...]]:
    """Returns all sequences of up to ORDER tokens that end at the tokens from number `start` on."""
    return [
        tuple(tokens[i - length + 1 : i + 1])
        for i in range(start, len(tokens))
        for length in range(1, min(ORDER, i + 1) + 1)
    ]
