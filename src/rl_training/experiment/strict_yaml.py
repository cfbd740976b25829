"""YAML without its trap: a key that is given twice is refused, where YAML would silently take the last."""

from __future__ import annotations

from collections.abc import Hashable

import yaml


class StrictLoader(yaml.SafeLoader):
    """Makes plain values only, and of every key one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: list[tuple[object, int]] = []
        for key_node, _ in node.value:
            key, line = self.construct_object(key_node, deep=True), key_node.start_mark.line + 1
            before = next((at for other, at in seen if other == key), None)
            if before is not None:
                where = f"in line {line}" if line == before else f"in lines {before} and {line}"
                raise yaml.YAMLError(f"the key {key!r} is given twice, {where}: give it once")
            seen.append((key, line))
        return super().construct_mapping(node, deep)


def parse_yaml(text: str) -> object:
    """Reads one YAML document; whatever is wrong with it is a `yaml.YAMLError`."""
    try:
        return yaml.load(text, StrictLoader)
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply") from error
    except ValueError as error:  # a date such as 2024-13-45, or a number that Python does not read
        raise yaml.YAMLError(str(error)) from error
