"""Texts as vectors, computed by the user's own ONNX model and tokenizer (extra `embed`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sage.files import sha256_of
from sage.words import SCANNED

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

MOST_TOKENS = 256


class EmbeddingError(ValueError):
    """Files or packages that cannot embed a text; the message names the file, what is wrong and what to do."""


@dataclass(frozen=True, eq=False)
class Embedder:
    """An ONNX model with its tokenizer, which turns a text into a vector of length 1: the mean of its token vectors.

    Every text is embedded alone, so that its vector does not depend on other texts.
    """

    model: Path
    tokenizer: Path
    model_sha256: str
    tokenizer_sha256: str
    folder: Path | None = None  # where the files are, if not where they were learned with

    @classmethod
    def of(cls, model: Path, tokenizer: Path, folder: Path | None = None) -> Embedder:
        """Hashes both files and embeds a first text with them.

        Raises EmbeddingError if a file is missing or cannot embed a text. With `folder`, files of these names are read
        from there.
        """
        files = located(model, folder), located(tokenizer, folder)
        for path in files:
            if not path.is_file():
                raise EmbeddingError(f"{path}: there is no such file: give an ONNX model and its tokenizer.json")
        found = cls(model, tokenizer, sha256_of(files[0]), sha256_of(files[1]), folder)
        found.embed(["a text"])
        return found

    @classmethod
    def from_options(cls, options: dict[str, str], folder: Path) -> Embedder:
        """Opens the files that a checkpoint names; a model file of that name in the checkpoint's `folder` comes first.

        Raises EmbeddingError if a file is missing or its content is not the one that the policy was learned with.
        """
        model, tokenizer = Path(options["model"]), Path(options["tokenizer"])
        found = cls.of(model, tokenizer, folder if located(model, folder).is_file() else None)
        for path, own, learned in (
            (model, found.model_sha256, options["model_sha256"]),
            (tokenizer, found.tokenizer_sha256, options["tokenizer_sha256"]),
        ):
            if own != learned:
                raise EmbeddingError(
                    f"{located(path, found.folder)} has the sha256 {own}, and the policy was learned with {learned}: restore "
                    "that file, or train again"
                )
        return found

    def options(self) -> dict[str, str]:
        """Returns the paths and sha256 of both files as texts, for a checkpoint."""
        return {name: str(getattr(self, name)) for name in ("model", "tokenizer", "model_sha256", "tokenizer_sha256")}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the vectors of texts, float32 [n, width]."""
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text: str) -> np.ndarray:
        """Returns the vector of one text, float32 [width], of length 1.

        Raises EmbeddingError if the model needs other inputs, fails, or returns no vector of finite numbers.
        """
        session, tokens = self.loaded
        found = tokens.encode(text[:SCANNED])
        ids = found.ids or [0]  # a text without any token
        known = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": [0] * len(ids)}
        asked = [one.name for one in session.get_inputs()]
        if not set(asked) <= set(known):
            raise EmbeddingError(f"{self.model} asks for {', '.join(asked)}: sage can give {', '.join(known)}")
        with EmbeddingErrors(f"{self.model} fails on the tokens of {self.tokenizer}", "is that its own tokenizer?"):
            output = session.run(None, {name: np.array([known[name]], np.int64) for name in asked})[0]
        vector = (output.mean(axis=1) if output.ndim == 3 else output).astype(np.float32)
        if vector.ndim != 2 or len(vector) != 1 or not np.isfinite(vector).all():
            raise EmbeddingError(
                f"{self.model} gives an array of shape {output.shape} for one text: its first output must be a vector, or one for "
                "each token, of finite numbers"
            )
        return vector[0] / max(float(np.linalg.norm(vector[0])), np.finfo(np.float32).tiny)

    @cached_property
    def loaded(self) -> tuple[InferenceSession, Tokenizer]:
        """Loads the model and the tokenizer at the first use.

        Raises EmbeddingError if a package is not installed or a file cannot be read.
        """
        try:
            from onnxruntime import InferenceSession, SessionOptions
            from tokenizers import Tokenizer
        except ImportError as error:
            raise EmbeddingError(
                f"embeddings need {error.name}, which is not installed: install the extra `embed` (onnxruntime, tokenizers)"
            ) from error
        alone = SessionOptions()
        alone.intra_op_num_threads = 1  # a router has other requests to serve
        model, tokenizer = located(self.model, self.folder), located(self.tokenizer, self.folder)
        with EmbeddingErrors(f"{model} cannot be read", "give an ONNX model"):
            session = InferenceSession(str(model), alone, providers=["CPUExecutionProvider"])
        with EmbeddingErrors(f"{tokenizer} cannot be read", "give the tokenizer.json of the model"):
            tokens = Tokenizer.from_file(str(tokenizer))
        tokens.no_padding()
        tokens.enable_truncation(MOST_TOKENS)
        return session, tokens


@dataclass(frozen=True)
class EmbeddingErrors:
    """A context manager that turns any exception inside it into an EmbeddingError with a given sentence and fix.

    The errors of onnxruntime and tokenizers have no class of their own.
    """

    what: str
    fix: str

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise EmbeddingError(f"{self.what} ({error}): {self.fix}") from error


def located(path: Path, folder: Path | None) -> Path:
    return path if folder is None else folder / path.name
