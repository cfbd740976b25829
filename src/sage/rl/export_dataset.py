"""The promised path of `sage.evidence.export_dataset`."""

from sage.evidence.export_dataset import Exported, ExportError, export

__all__ = ["ExportError", "Exported", "export"]
