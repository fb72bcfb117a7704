"""The published tables, made anew: the account's figures beside those of the torch at hand."""

from bisectorch.tables.bench import Bench, Subject
from bisectorch.tables.catalogue import NAMES, make
from bisectorch.tables.output import FORMATS, save, write

__all__ = ["FORMATS", "NAMES", "Bench", "Subject", "make", "save", "write"]
