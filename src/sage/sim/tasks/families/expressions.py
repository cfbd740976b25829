"""A small language of sums: tokens, trees, values, and text with as few parentheses as needed."""

from __future__ import annotations

import random

CHOICES = {"DEEPEST": (4, 5, 6)}
DEEPEST = 5
SYMBOLS = "+-*/()"
BINDING = {"+": 1, "-": 1, "*": 2, "/": 2}


def tokens(text: str) -> list[str]:
    """Numbers, names and symbols."""
    found, place = [], 0
    while place < len(text):
        letter = text[place]
        if letter.isspace():
            place += 1
        elif letter in SYMBOLS:
            found.append(letter)
            place += 1
        elif letter.isdigit() or letter.isalpha():
            end = place + 1
            while end < len(text) and text[end].isalnum() and text[end].isdigit() == letter.isdigit():
                end += 1
            found.append(text[place:end])
            place = end
        else:
            raise ValueError(f"{letter!r} at {place} is not understood")
    return found


def tokens__folding(text: str) -> list[str]:
    """Numbers, names and symbols."""
    found: list[str] = []
    joined = False
    for place, letter in enumerate(text):
        if letter in SYMBOLS:
            found.append(letter)
            joined = False
        elif letter.isdigit() or letter.isalpha():
            if joined and found[-1][-1].isdigit() == letter.isdigit():
                found[-1] += letter
            else:
                found.append(letter)
            joined = True
        elif letter.isspace():
            joined = False
        else:
            raise ValueError(f"{letter!r} at {place} is not understood")
    return found


def parse(text: str) -> object:
    """A tree: a number, a name, or (symbol, left, right)."""
    words = tokens(text)
    tree, place = parse_level(words, 0, 1, 0)
    if place != len(words):
        raise ValueError(f"{words[place]!r} is left over")
    return tree


def parse_level(words: list[str], place: int, binding: int, depth: int) -> tuple[object, int]:
    tree, place = parse_operand(words, place, depth)
    while place < len(words) and BINDING.get(words[place], 0) >= binding:
        symbol = words[place]
        right, place = parse_level(words, place + 1, BINDING[symbol] + 1, depth)
        tree = (symbol, tree, right)
    return tree, place


def parse_operand(words: list[str], place: int, depth: int) -> tuple[object, int]:
    if depth > DEEPEST:
        raise ValueError("too many parentheses")
    if place >= len(words):
        raise ValueError("something is missing")
    word = words[place]
    if word == "(":
        tree, place = parse_level(words, place + 1, 1, depth + 1)
        if place >= len(words) or words[place] != ")":
            raise ValueError("a parenthesis is not closed")
        return tree, place + 1
    if word == "-":
        tree, place = parse_operand(words, place + 1, depth + 1)
        return ("-", 0, tree), place
    if word in SYMBOLS:
        raise ValueError(f"{word!r} is misplaced")
    return int(word) if word.isdigit() else word, place + 1


def evaluate(tree: object, values: dict[str, int]) -> int:
    """The value of a tree; division rounds down."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        if tree not in values:
            raise KeyError(tree)
        return values[tree]
    assert isinstance(tree, tuple)
    symbol, left, right = tree
    one, other = evaluate(left, values), evaluate(right, values)
    if symbol == "+":
        return one + other
    if symbol == "-":
        return one - other
    if symbol == "*":
        return one * other
    return one // other


def evaluate__stack(tree: object, values: dict[str, int]) -> int:
    """The value of a tree; division rounds down."""
    waiting, results = [tree], []
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple) and len(node) == 3:
            symbol, left, right = node
            waiting += [(symbol,), right, left]
        elif isinstance(node, tuple):
            other, one = results.pop(), results.pop()
            if node[0] == "+":
                results.append(one + other)
            elif node[0] == "-":
                results.append(one - other)
            else:
                results.append(one * other if node[0] == "*" else one // other)
        else:
            results.append(values[node] if isinstance(node, str) else node)
    return results[-1]


def text_of(tree: object, binding: int = 0) -> str:
    """The tree as text, with parentheses only where they are needed."""
    if not isinstance(tree, tuple):
        return str(tree)
    symbol, left, right = tree
    own = BINDING[symbol]
    text = f"{text_of(left, own)} {symbol} {text_of(right, own + 1)}"
    return f"({text})" if own < binding else text


def simplify(tree: object) -> object:
    """The tree without additions of nothing and multiplications by one or nothing."""
    if not isinstance(tree, tuple):
        return tree
    symbol, left, right = tree[0], simplify(tree[1]), simplify(tree[2])
    if isinstance(left, int) and isinstance(right, int) and symbol != "/":
        return evaluate((symbol, left, right), {})
    if symbol in "+-" and right == 0:
        return left
    if symbol == "+" and left == 0:
        return right
    if symbol == "*":
        if 0 in (left, right):
            return 0
        if left == 1:
            return right
    if symbol in "*/" and right == 1:
        return left
    return (symbol, left, right)


def names(tree: object) -> list[str]:
    """The names in a tree, each once, in the order of the text."""
    if isinstance(tree, str):
        return [tree]
    found: list[str] = []
    if isinstance(tree, tuple):
        for part in tree[1:]:
            found += [name for name in names(part) if name not in found]
    return found


def random_tree(rng: random.Random, depth: int) -> object:
    if depth == 0 or rng.random() < 0.25:
        return rng.choice([rng.randint(0, 9), rng.choice("abx"), rng.choice([0, 1])])
    return (rng.choice("+-*/+-*"), random_tree(rng, depth - 1), random_tree(rng, depth - 1))


def arguments_tokens(rng: random.Random) -> tuple:
    return ("".join(rng.choice(["12", "x", " ", "+", "(", ")", "a1", "*", "7", "?" if rng.random() < 0.1 else "-"]) for _ in range(rng.randint(1, 8))),)  # fmt: skip  # noqa: E501


def arguments_parse(rng: random.Random) -> tuple:
    text = text_of(random_tree(rng, 3)).replace("0 -", "-")
    return (text[: rng.randint(1, len(text))] if rng.random() < 0.2 else text,)


def arguments_evaluate(rng: random.Random) -> tuple:
    return random_tree(rng, 3), {"a": rng.randint(1, 5), "b": rng.randint(1, 5), "x": rng.randint(2, 9)}


def arguments_text_of(rng: random.Random) -> tuple:
    return (random_tree(rng, 3),)


def arguments_simplify(rng: random.Random) -> tuple:
    return (random_tree(rng, 3),)


def arguments_names(rng: random.Random) -> tuple:
    return (random_tree(rng, 3),)
