"""Counts the share of code that only checks, warns or explains.

`python tools/count_checks.py [FOLDER ...]`, by default every package of diffsim. Lines
of code hold more than a comment or a docstring. Of them count as checks:

- `raise` and `warnings.warn`, and an `if`, `for`, `with` or `try` around nothing else;
- functions whose names begin with check, or of which nothing else is left;
- calls, for their own sake, of such functions.
"""

import ast
import pathlib
import re
import sys


ROOT = pathlib.Path(__file__).parents[1] / "diffsim"
_CHECK = re.compile(r"^_?(check|refuse|warn|explain|hint|advice|why)(_|ed|$)")


def is_check(statement: ast.stmt) -> bool:
    """Whether this statement does nothing but check, warn or explain."""
    match statement:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=function)):
            name = getattr(function, "attr", getattr(function, "id", ""))
            return name == "warn" or bool(_CHECK.match(name))
        case ast.If() | ast.For() | ast.With():
            body = [*statement.body, *getattr(statement, "orelse", [])]
            return any(map(is_check, body)) and all(
                is_check(s) or _prepares(s) for s in body
            )
        case ast.Try():
            handled = [s for handler in statement.handlers for s in handler.body]
            return all(map(is_check, handled)) and all(
                map(is_check, [*statement.body, *statement.orelse])
            )
        case ast.FunctionDef():
            body = statement.body[ast.get_docstring(statement) is not None :]
            return bool(_CHECK.match(statement.name)) or (
                any(map(is_check, body))
                and all(is_check(s) or _prepares(s) for s in body)
            )
    return False


def _prepares(statement: ast.stmt) -> bool:
    """Whether it makes what the sentence beside it says, or leaves early."""
    return isinstance(statement, ast.Assign | ast.Pass | ast.Continue) or (
        isinstance(statement, ast.Return) and statement.value is None
    )


def code_lines(tree: ast.Module, source: str) -> set[int]:
    """Numbers of the lines that hold code."""
    lines = {
        number
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#")
    }
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def check_lines(node: ast.AST) -> set[int]:
    """Numbers of the lines of outermost checks."""
    found: set[int] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt) and is_check(child):
            found |= set(range(child.lineno, (child.end_lineno or child.lineno) + 1))
        else:
            found |= check_lines(child)
    return found


def share(folder: pathlib.Path) -> tuple[int, int]:
    """Lines of code of a folder, and of those the lines that only check."""
    code = checks = 0
    for path in [folder] if folder.is_file() else folder.rglob("*.py"):
        source = path.read_text()
        tree = ast.parse(source)
        lines = code_lines(tree, source)
        code += len(lines)
        checks += len(lines & check_lines(tree))
    return code, checks


def main():
    folders = [pathlib.Path(name) for name in sys.argv[1:]] or [
        ROOT,
        *sorted(p for p in ROOT.iterdir() if p.is_dir() and any(p.glob("*.py"))),
    ]
    for folder in folders:
        code, checks = share(folder)
        print(f"{folder.name:20} {code:7,} {checks:6,} {100 * checks / code:5.1f} %")


if __name__ == "__main__":
    main()
