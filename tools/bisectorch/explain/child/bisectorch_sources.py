"""What a Python file defines: each function's name, place and a digest of what it says.

Part of the child: Python 3.6 syntax, standard library only. The file is parsed by the interpreter
that runs it, because a newer one refuses some of what an older one accepts. A digest leaves out
documentation, comments and layout, which change nothing that runs.
"""

import ast
import hashlib
from typing import Any, Dict, List, Optional, Tuple

MODULE = "<module>"
"""The name of a file's own code, outside of all functions."""

Definition = Tuple[str, int, int, str]
"""Qualified name, first line (decorators included), last line, digest."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def definitions(path: str) -> Optional[List[Definition]]:
    """Every function of a file and the file's own code; None when it cannot be parsed."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    found: List[Definition] = []
    _walk(tree, "", found)
    _strip(tree)
    found.append((MODULE, 1, 1, _digest(tree)))
    return found


def _walk(node: Any, prefix: str, found: List[Definition]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            name = prefix + getattr(child, "name", "<lambda>")
            _walk(child, name + ".<locals>.", found)
            found.append((name, _first(child), _last(child), _digest(_undocumented(child))))
        elif isinstance(child, ast.ClassDef):
            _walk(child, prefix + child.name + ".", found)
        else:
            _walk(child, prefix, found)


def _undocumented(node: Any) -> Any:
    """The function without its documentation."""
    body = node.body
    if isinstance(body, list) and body and _is_text(body[0]):
        node.body = body[1:] or [ast.Pass()]
    return node


def _is_text(statement: Any) -> bool:
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if type(value).__name__ == "Str":  # before Python 3.8
        return True
    return isinstance(getattr(value, "value", None), str) and type(value).__name__ == "Constant"


def _strip(tree: Any) -> None:
    """Take the bodies out of all functions, and documentation out of classes and the file."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [ast.Pass()]
        elif isinstance(node, (ast.ClassDef, ast.Module)):
            _undocumented(node)


def _digest(node: Any) -> str:
    return hashlib.sha1(ast.dump(node).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _first(node: Any) -> int:
    lines = [node.lineno] + [each.lineno for each in getattr(node, "decorator_list", ())]
    return int(min(lines))


def _last(node: Any) -> int:
    end = getattr(node, "end_lineno", None)  # from Python 3.8 on
    if end is not None:
        return int(end)
    return int(max(getattr(each, "lineno", node.lineno) for each in ast.walk(node)))


class Names(object):
    """The qualified names of code objects, by their files' definitions."""

    def __init__(self) -> None:
        self.files: Dict[str, Dict[Tuple[int, str], str]] = {}

    def of(self, code: Any) -> str:
        """The qualified name of a code object, without ``.<locals>`` of comprehensions."""
        path = code.co_filename
        if path not in self.files:
            known = definitions(path) or ()
            self.files[path] = {(d[1], d[0].split(".")[-1]): d[0] for d in known}
        found = self.files[path].get((code.co_firstlineno, code.co_name))
        return found or getattr(code, "co_qualname", code.co_name)
