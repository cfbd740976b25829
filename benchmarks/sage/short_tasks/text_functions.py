"""Templates of Python functions on texts that a model is asked to write."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

from short_tasks import text_solutions as ours
from short_tasks.function import Function, letters, variants

WORDS = ("apple", "bee", "Cat", "delta", "echo", "Fox", "green", "hat", "Ink", "jump", "level", "noon", "river", "to")


def sentence(random: Random) -> tuple[str]:
    return (" ".join(random.choices(WORDS, k=random.randint(1, 6))),)


def words(random: Random) -> tuple[list[str]]:
    return (random.choices(WORDS, k=random.randint(1, 6)),)


def snake(random: Random) -> tuple[str]:
    return ("_".join(word.lower() for word in random.choices(WORDS, k=random.randint(1, 4))),)


def ranges(random: Random) -> tuple[str]:
    starts = sorted(random.sample(range(1, 60, 6), random.randint(1, 4)))
    return (",".join(f"{n}-{n + random.randint(1, 4)}" if random.random() < 0.6 else str(n) for n in starts),)


def parse_pairs(separator: str, equals: str) -> Function:
    return Function(
        name="parse_pairs",
        parameters="text",
        text=(
            f"turns a string such as 'a{equals}1{separator}b{equals}xy' into the dictionary {{{{'a': '1', "
            f"'b': 'xy'}}}}; an empty string gives an empty dictionary."
        ),
        solution=lambda text: dict(pair.split(equals) for pair in text.split(separator)) if text else {},
        draw=lambda random: (
            separator.join(f"{key}{equals}{random.randint(0, 99)}" for key in random.sample("abcdef", 3)),
        ),
        fixed=(("",), (f"k{equals}v",)),
    )


TEXT_FUNCTIONS = (
    Function(
        name="count_letters",
        parameters="text",
        text="returns how many characters of the string are one of the letters {among!r}, in upper or lower case.",
        solution=lambda text, among: sum(c in among for c in text.lower()),
        draw=sentence,
        fixed=(("",), ("AEIOU",)),
        variants=variants(among=("aeiou", "abc", "lmnt", "xyz", "rst")),
    ),
    Function(
        name="reverse_long_words",
        parameters="text",
        text=(
            "takes words separated by single spaces and returns them in the same order, with every word "
            "of more than {k} letters reversed."
        ),
        solution=lambda text, k: " ".join(w[::-1] if len(w) > k else w for w in text.split(" ")),
        draw=sentence,
        variants=variants(k=(2, 3, 4, 5)),
    ),
    Function(
        name="shift_letters",
        parameters="text",
        text=(
            "moves every letter a-z and A-Z {k} places forward in the alphabet, starting again at a or A "
            "after z or Z, and leaves all other characters as they are."
        ),
        solution=ours.shifted,
        draw=sentence,
        fixed=(("xyz, XYZ!",), ("",)),
        variants=variants(k=(1, 2, 3, 5, 7, 13, 24)),
    ),
    Function(
        name="is_palindrome",
        parameters="text",
        text="returns True if the string reads the same forwards and backwards when {rule}, and False otherwise.",
        solution=lambda text, rule: (
            (kept := "".join(c for c in text.lower() if c.isalpha() or (c.isdigit() and "digits" not in rule)))
            == kept[::-1]
        ),
        draw=letters("aAbB1 ", most=6),
        fixed=(("",), ("Never odd or even",), ("1a2",), ("ab1ba",)),
        variants=variants(
            rule=(
                "case and everything that is neither a letter nor a digit are ignored",
                "case, digits and everything else that is not a letter are ignored",
            )
        ),
    ),
    Function(
        name="run_length",
        parameters="text",
        text=(
            "replaces every run of the same character by the character and the length of the run, with "
            "{single}: {example}."
        ),
        solution=lambda text, single, example: ours.run_lengths(text, single),
        draw=letters("aab", most=14),
        fixed=(("",), ("aaabcc",)),
        variants=variants(
            single=("no number for a run of length 1", "a number also for a run of length 1"),
            example=("'aaabcc' becomes 'a3bc2'", "'aaabcc' becomes 'a3b1c2'"),
        ),
    ),
    Function(
        name="run_length_decode",
        parameters="text",
        text=(
            "turns a string of letters, each followed by how often it is repeated, into the full string: "
            "'a3b1c12' becomes 'aaabcccccccccccc'."
        ),
        solution=lambda text: "".join(c * int(n) for c, n in re.findall(r"(\D)(\d+)", text)),
        draw=lambda random: ("".join(f"{c}{random.randint(1, 13)}" for c in random.sample("abcdef", 3)),),
        fixed=(("",),),
    ),
    Function(
        name="convert_name",
        parameters="name",
        text="turns a name in snake_case, such as 'read_all_lines', into {form}.",
        solution=lambda name, form: {
            "C": "".join(p.capitalize() for p in name.split("_")),
            "l": (c := "".join(p.capitalize() for p in name.split("_")))[:1].lower() + c[1:],
            "k": name.replace("_", "-"),
            "T": " ".join(p.capitalize() for p in name.split("_")),
        }[form[0]],
        draw=snake,
        fixed=(("a",),),
        variants=variants(
            form=(
                "CamelCase such as 'ReadAllLines'",
                "lower camel case such as 'readAllLines'",
                "kebab-case such as 'read-all-lines'",
                "Title words such as 'Read All Lines'",
            )
        ),
    ),
    Function(
        name="to_snake_case",
        parameters="name",
        text="turns a name in CamelCase, such as 'ReadAllLines', into snake_case: 'read_all_lines'.",
        solution=lambda name: re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(),
        draw=lambda random: ("".join(w.capitalize() for w in random.choices(WORDS, k=random.randint(1, 4))),),
    ),
    Function(
        name="{which}_frequent_letter",
        parameters="text",
        text=(
            "returns the character that occurs {which} often in the non-empty string (of those that occur "
            "in it); of several, the one that comes first in the alphabet."
        ),
        solution=ours.most_frequent,
        draw=letters("abcde", least=1, most=14),
        fixed=(("ba",),),
        variants=variants(which=("most", "least")),
    ),
    Function(
        name="is_balanced",
        parameters="text",
        text=(
            "returns True if the brackets {kinds} in the string are balanced and correctly nested, "
            "ignoring all other characters, and False otherwise."
        ),
        solution=ours.balanced,
        draw=letters("()[]{}<>a", most=6),
        fixed=(("",), ("([])",), ("([)]",), ("a(b{c}<d>)",), (")(",), ("((",), ("<({[]})>",), ("{]",)),
        variants=variants(kinds=("()", "[]", "()[]", "()[]{}", "<>()", "<>[]{}")),
    ),
    Function(
        name="shorten",
        parameters="text",
        text=(
            "returns the string itself if it has at most {n} characters, and otherwise its beginning "
            "followed by {end!r}, with {n} characters in all."
        ),
        solution=lambda text, n, end: text if len(text) <= n else text[: n - len(end)] + end,
        draw=sentence,
        fixed=(("",), ("abcdefghij",), ("abcdefghijk",)),
        variants=variants(n=(10, 8, 12, 15), end=("...", "..", "~", " [...]")),
    ),
    Function(
        name="word_counts",
        parameters="text",
        text=(
            "returns a dictionary from every word of the text in lower case to the number of its "
            "occurrences; words are separated by whitespace, and words with fewer than {k} letters are "
            "left out."
        ),
        solution=lambda text, k: dict(Counter(w for w in text.lower().split() if len(w) >= k)),
        draw=sentence,
        fixed=(("",),),
        variants=variants(k=(2, 3, 4, 5)),
    ),
    Function(
        name="initials",
        parameters="name",
        text="returns the first letters of the words of a name in upper case, {form}.",
        solution=lambda name, form: "".join(w[0].upper() + ("." if "full" in form else "") for w in name.split()),
        draw=sentence,
        variants=variants(
            form=(
                "without anything between them ('ada lovelace' gives 'AL')",
                "each followed by a full stop ('ada lovelace' gives 'A.L.')",
            )
        ),
    ),
    Function(
        name="remove_pairs",
        parameters="text",
        text=(
            "removes pairs of equal adjacent characters again and again until there is none, and returns "
            "what is left: 'abba' gives '', 'aab' gives 'b'."
        ),
        solution=ours.without_pairs,
        draw=letters("abc", most=12),
        fixed=(("",), ("abba",), ("aaa",)),
    ),
    Function(
        name="squeeze",
        parameters="text",
        text="replaces every run of {what} by a single one and leaves the rest as it is.",
        solution=lambda text, what: re.sub(" +", " ", text) if what == "spaces" else re.sub(r"(.)\1+", r"\1", text),
        draw=letters("ab  ", most=12),
        fixed=(("",), ("aa  bb",)),
        variants=variants(what=("spaces", "the same character")),
    ),
    Function(
        name="longest_word",
        parameters="words",
        text="returns the longest string of a non-empty list; of several, the {which} in the list.",
        solution=lambda words, which: max(words if which == "first" else words[::-1], key=len),
        draw=words,
        fixed=((["ab", "cd"],),),
        variants=variants(which=("first", "last")),
    ),
    Function(
        name="common_{end}",
        parameters="texts",
        text="returns the longest {end} that all strings of a non-empty list have in common.",
        solution=ours.common_end,
        draw=lambda random: (
            ["".join(random.choices("ab", k=2)) + "x" + "".join(random.choices("ab", k=2)) for _ in range(2)],
        ),
        fixed=((["flower", "flow", "flight"],), (["action", "nation", "station"],), (["abc"],), (["a", ""],)),
        variants=variants(end=("prefix", "suffix")),
    ),
    Function(
        name="group_anagrams",
        parameters="words",
        text="groups words that consist of the same letters, and returns a sorted list of sorted lists.",
        solution=lambda words: sorted(
            sorted(w for w in words if sorted(w) == list(key)) for key in {tuple(sorted(w)) for w in words}
        ),
        draw=lambda random: (
            random.sample(("abc", "bca", "cab", "ab", "ba", "xyz", "zyx", "q"), random.randint(1, 7)),
        ),
        fixed=(([],),),
    ),
    *(parse_pairs(separator, equals) for separator, equals in ((";", "="), (",", ":"), ("&", "="))),
    Function(
        name="pieces",
        parameters="text",
        text="cuts the string into pieces of {k} characters, {order}, and returns the list of pieces.",
        solution=lambda text, k, order: (
            [text[i : i + k] for i in range(0, len(text), k)]
            if order.startswith("from the left")
            else [text[max(i - k, 0) : i] for i in range(len(text), 0, -k)][::-1]
        ),
        draw=letters("0123456789", least=1, most=11),
        fixed=(("",), ("1234567",)),
        variants=variants(
            k=(2, 3, 3, 4),
            order=(
                "from the left, so that the last one may be shorter",
                "from the left, so that the last one may be shorter",
                "from the right, so that the first one may be shorter ('12345' cut by 2 gives ['1', '23', '45'])",
                "from the right, so that the first one may be shorter ('12345' cut by 2 gives ['1', '23', '45'])",
            ),
        ),
    ),
    Function(
        name="is_strong",
        parameters="password",
        text="returns True if the string has at least {n} characters and at least one {needs}, and False otherwise.",
        solution=ours.is_strong,
        draw=letters("aB1", least=3, most=11),
        fixed=(("",), ("abcdefgh",), ("ABCDEFGH1",), ("abcDEF12",)),
        variants=variants(
            n=(8, 6, 10),
            needs=(
                "digit",
                "digit and one upper-case letter",
                "digit, one upper-case letter and one lower-case letter",
            ),
        ),
    ),
    Function(
        name="count_overlapping",
        parameters="text, part",
        text=(
            "returns how often the non-empty string part occurs in text, counting occurrences that "
            "overlap: 'aa' occurs 3 times in 'aaaa'."
        ),
        solution=lambda text, part: sum(text.startswith(part, i) for i in range(len(text))),
        draw=lambda random: ("".join(random.choices("ab", k=random.randint(3, 10))), random.choice(("a", "aa", "aba"))),
        fixed=(("", "a"), ("aaaa", "aa")),
    ),
    Function(
        name="interleave",
        parameters="a, b",
        text=(
            "returns the characters of two strings in turn, beginning with {first}; what is left of the "
            "longer one follows at the end."
        ),
        solution=lambda a, b, first: "".join(
            x[i : i + 1] + y[i : i + 1]
            for x, y in [(a, b) if first == "a" else (b, a)]
            for i in range(max(len(x), len(y)))
        ),
        draw=lambda random: (*letters("abc", most=5)(random), *letters("xyz", most=5)(random)),
        fixed=(("", ""), ("ab", "xyz")),
        variants=variants(first=("a", "b")),
    ),
    Function(
        name="check_digit",
        parameters="digits",
        text=(
            "multiplies the digits of a string of digits from left to right by {x}, {y}, {x}, {y} and so "
            "on, and returns the sum of the products modulo 10."
        ),
        solution=lambda digits, x, y: sum(int(d) * (y if i % 2 else x) for i, d in enumerate(digits)) % 10,
        draw=letters("0123456789", least=1),
        fixed=(("",),),
        variants=variants(x=(1, 3, 2, 7), y=(3, 7, 1, 9)),
    ),
    Function(
        name="longest_unique",
        parameters="text",
        text="returns the length of the longest part of the string (without gaps) in which no character occurs twice.",
        solution=ours.longest_without_repeat,
        draw=letters("abcd", least=1, most=12),
        fixed=(("",), ("abcabcbb",), ("pwwkew",)),
    ),
    Function(
        name="edit_distance",
        parameters="a, b",
        text=(
            "returns the smallest total cost of turning string a into string b, where inserting a "
            "character costs 1, deleting one costs 1 and replacing one costs {substitution}."
        ),
        solution=ours.edit_distance,
        draw=lambda random: (*letters("abc", most=5)(random), *letters("abc", most=5)(random)),
        fixed=(("", "ab"), ("kitten", "sitting")),
        variants=variants(substitution=(1, 2, 3)),
    ),
    Function(
        name="expand_ranges",
        parameters="text",
        text="turns a string such as '1-3,5,8-9' into the list [1, 2, 3, 5, 8, 9].",
        solution=ours.expanded,
        draw=ranges,
        fixed=(("7",),),
    ),
    Function(
        name="swap_case_of",
        parameters="text",
        text="returns the string with {what} in upper case and all other letters in lower case.",
        solution=lambda text, what: {
            "every": lambda: "".join(c.upper() if i % 2 == 0 else c.lower() for i, c in enumerate(text)),
            "vowels": lambda: "".join(c.upper() if c in "aeiou" else c for c in text.lower()),
            "the last": lambda: " ".join(w[:-1].lower() + w[-1:].upper() for w in text.split(" ")),
        }[next(k for k in ("every", "vowels", "the last") if what.startswith(k))](),
        draw=sentence,
        fixed=(("",),),
        variants=variants(
            what=(
                "every character at an even index (0, 2, ...)",
                "vowels (a, e, i, o, u)",
                "the last letter of every word (words are separated by single spaces)",
            )
        ),
    ),
)
