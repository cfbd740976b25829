"""A re-export of `sage.evidence.export_dataset` under its promised path."""

from sage.evidence.export_dataset import Exported, ExportError, export

__all__ = ["ExportError", "Exported", "export"]
