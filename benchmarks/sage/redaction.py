"""What sage's redaction and Yelp's detect-secrets find in the same made-up texts.

PYTHONPATH=src:. python benchmarks/sage/redaction.py                # writes results/redaction.json; needs detect-secrets

The texts are those of tests/sage/secret_cases.py. detect-secrets scans each as a file of its own, with its default plugins
and filters; a text counts as found if it reports any secret in it. It reports and sage removes, so verdicts are compared.
"""

from __future__ import annotations

import argparse
import tempfile
from importlib.metadata import version
from pathlib import Path

from detect_secrets.core.scan import scan_file
from detect_secrets.settings import default_settings
from tests.sage.secret_cases import HARMLESS, NAMED, SHAPED

from sage.files import write_json
from sage.log.redaction import redact

RESULT = Path(__file__).parent / "results" / "redaction.json"
GROUPS = {"known by shape": SHAPED, "known by name": NAMED, "harmless": HARMLESS}


def detected(text: str) -> bool:
    with tempfile.TemporaryDirectory() as folder, default_settings():
        path = Path(folder) / "text.txt"
        path.write_text(text + "\n", encoding="utf-8")
        return any(True for _ in scan_file(str(path)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    groups = {}
    for name, cases in GROUPS.items():
        verdicts = {case.name: (redact(case.text) != case.text, detected(case.text)) for case in cases}
        groups[name] = {
            "texts": len(cases),
            "sage": sum(ours for ours, _ in verdicts.values()),
            "detect_secrets": sum(theirs for _, theirs in verdicts.values()),
            "only_sage": [case for case, verdict in verdicts.items() if verdict == (True, False)],
            "only_detect_secrets": [case for case, verdict in verdicts.items() if verdict == (False, True)],
        }
        print(name, groups[name])
    write_json(options.out, {"detect_secrets": version("detect-secrets"), "found_in": groups})


if __name__ == "__main__":
    main()
