"""What a decision costs with a text policy that embeds: decision_overhead.py's calls, in a row of their own.

.venv/bin/python benchmarks/sage/embedding_overhead.py                                    # results/embedding_overhead.json
.venv/bin/python benchmarks/sage/embedding_overhead.py --embed M.onnx --tokenizer T.json --out FILE    # with your model

Needs the extra `embed`. Without a model of yours, it makes one with random weights (which needs `onnx` too): its time depends
on its size alone, which is that of MiniLM-L6 (6 layers, 384 wide, 12 heads, 30,522 tokens; 22.7 million weights). A token is
a word or a sign; at most 256 are read.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import torch
from decision_overhead import TABLE, measure, text_policy
from torch import Tensor, nn

from sage import Router
from sage.files import write_json
from sage.policies.checkpoint import save_policy
from sage.policies.text.embedding import Embedder

OUT = Path(__file__).parent / "results" / "embedding_overhead.json"
WIDTH, HEADS, LAYERS, TOKENS, LONGEST = 384, 12, 6, 30_522, 512


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.rest = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            part.view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2) for part in self.parts(x).split(WIDTH, dim=2)
        )
        weights = (query @ key.transpose(2, 3) / (WIDTH // HEADS) ** 0.5).softmax(dim=3)
        x = self.norms[0](x + self.joined((weights @ value).transpose(1, 2).reshape(1, -1, WIDTH)))
        return self.norms[1](x + self.rest(x))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.blocks(self.words(input_ids) + self.places.weight[: input_ids.shape[1]])


def made_files(folder: Path) -> tuple[Path, Path]:
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    model, tokenizer = folder / "model.onnx", folder / "tokenizer.json"
    torch.onnx.export(
        Encoder().eval(),
        (torch.zeros(1, 7, dtype=torch.int64),),
        str(model),
        input_names=["input_ids"],
        dynamic_axes={"input_ids": {1: "tokens"}},
        dynamo=False,
    )
    names = ["?", "prove", "add", *(f"word{i}" for i in range(TOKENS - 3))]
    words = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(tokenizer))
    return model, tokenizer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--embed", type=Path, help="your ONNX model (one with random weights)")
    parser.add_argument("--tokenizer", type=Path, help="its tokenizer.json")
    parser.add_argument("--decisions", type=int, default=500)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = made_files(folder) if options.embed is None else (options.embed, options.tokenizer)
        (folder / "models.yaml").write_text(TABLE)
        checkpoint = folder / "text.safetensors"
        save_policy(checkpoint, text_policy(Embedder.of(*files), longest=10))  # short texts, to learn from soon
        switches = {"SAGE_RL_POLICY": "1", "SAGE_RL_CHECKPOINT": str(checkpoint), "SAGE_RL_FORCE": "1"}  # no gate here
        with Router.open(
            folder / "log.db", models=folder / "models.yaml", data_source="synthetic", environment=switches, seed=0
        ) as router:
            measure(router, 20)  # warm
            found = measure(router, options.decisions)
        size = files[0].stat().st_size
    about = {"model_bytes": size, "cores": os.cpu_count(), "load": os.getloadavg()[0], "decisions": options.decisions}
    write_json(options.out, about | found)
    print(about | found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
