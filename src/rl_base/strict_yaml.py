"""A YAML reader that raises an error for a key given twice, where YAML would silently take the last value."""

from __future__ import annotations

import yaml

MERGE = "tag:yaml.org,2002:merge"  # of the key `<<`, which takes over another mapping's entries


class StrictLoader(yaml.SafeLoader):
    """A YAML loader of plain values that raises YAMLError for a key given twice in a mapping.

    Keys that `<<` merges in may be given again.
    """

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:  # pyrefly: ignore  (its stub says a dict)
        node = super().compose_mapping_node(anchor)  # pyrefly: ignore
        seen: list[tuple[object, int]] = []
        for key_node, _ in node.value:
            key = key_node.value if key_node.tag == MERGE else self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            before = next((at for other, at in seen if other == key), None)
            if before is not None:
                where = f"in line {line}" if line == before else f"in lines {before} and {line}"
                raise yaml.YAMLError(f"the key {key!r} is given twice, {where}: give it once")
            seen.append((key, line))
        return node


def parse_yaml(text: str) -> object:
    """Returns the value of one YAML document; raises `yaml.YAMLError` for every error, also for a key given twice."""
    try:
        return yaml.load(text, StrictLoader)
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply") from error
    except ValueError as error:  # a date such as 2024-13-45, or a number that Python does not read
        raise yaml.YAMLError(str(error)) from error
