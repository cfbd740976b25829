"""YAML without its trap: a key that is given twice is refused."""

from __future__ import annotations

from collections.abc import Hashable

import yaml


class StrictLoader(yaml.SafeLoader):
    """Refuses a key that is given twice, where YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.MarkedYAMLError(
                problem=f"the key {twice[0]!r} is given twice: give it once", problem_mark=node.start_mark
            )
        return super().construct_mapping(node, deep)
