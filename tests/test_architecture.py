"""The structure of the library, checked; needs only the standard library.

Which package may import which is a table; no cycle may exist; nothing public is reached
through a private path from another package; files and functions stay small.
"""

import ast

from rows import FILES, PACKAGE as ROOT, for_each_file, parsed


FOUNDATION = {
    "_atomic_file",
    "_citations",
    "_configure",
    "_digest",
    "_extras",
    "_jaxpr",
    "_jit",
    "_linalg",
    "_parameter_selection",
    "_paths",
    "_progress",
    "_results",
    "_text_table",
    "_tuning",
    "_types",
    "_validation",
}
MAY_IMPORT = {
    "implicit": set(),
    "simulations": {"implicit"},
    "integrators": {"simulations", "implicit"},
    "nbody": {"integrators", "simulations", "implicit"},
    "pde": {"integrators", "simulations", "implicit"},
    "inference": {"simulations", "implicit"},
    "sweeps": {"simulations"},
    "verify": {"integrators", "simulations", "implicit"},
    "lensing": {"implicit", "inference"},
}
MAY_IMPORT["plots"] = set(MAY_IMPORT)
MAY_IMPORT["problems"] = {"nbody", "pde", "integrators", "simulations", "verify"}
MAY_IMPORT["cli"] = set(MAY_IMPORT)
MAY_IMPORT["__main__"] = {"cli"}
#: Sub-packages that are entered by their front doors, and those that they may import.
MAY_IMPORT_INSIDE = {
    "implicit": {"_linear_solvers": set()},
    "inference": {"_fisher": {"_likelihoods"}, "_likelihoods": set()},
    "nbody": {"_forces": set(), "_kepler": {"_forces"}},
    "pde": {
        "_boundaries": set(),
        "_elliptic": {"_boundaries", "_finite_volume"},
        "_equations": {
            "_boundaries",
            "_elliptic",
            "_finite_volume",
            "_time_step",
        },
        "_finite_volume": set(),
        "_incompressible": {"_boundaries", "_elliptic", "_time_step"},
        "_observables": {
            "_boundaries",
            "_equations",
            "_finite_volume",
            "_incompressible",
        },
        "_steady_state": {"_boundaries", "_elliptic", "_equations", "_incompressible"},
        "_time_step": set(),
    },
}
MIN_FILE, MAX_FILE, MAX_FUNCTION, MAX_DEPTH = 40, 600, 100, 3


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(f): f for f in FILES}


def imports(path, *, lazy=True):
    """Every diffsim module that `path` imports; without function bodies if not lazy."""
    package = name_of(path).split(".")
    package = package if path.name == "__init__.py" else package[:-1]
    pending, found = [parsed(path)], set()
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not lazy:
            continue
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join(base + ([node.module] if node.module else []))
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in MODULES else base)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))
    return {m for m in found if m.split(".")[0] == ROOT.name} - {name_of(path)}


@for_each_file
def test_imports_respect_the_layers(path):
    """Imports go down the table, and across packages only through the front door."""
    here = name_of(path).split(".")[1:2]
    if not here:
        return  # the top-level __init__ may gather anything
    here = here[0]
    for target in imports(path):
        parts = target.split(".")[1:]
        if not parts or parts[0] == here:
            assert parts, f"{name_of(path)} imports the top level: cycle"
        elif parts[0] in FOUNDATION:
            continue
        else:
            assert here not in FOUNDATION, f"foundation {here} imports {target}"
            assert here in MAY_IMPORT, f"add the package {here} to MAY_IMPORT"
            assert parts[0] in MAY_IMPORT[here], f"{here} may not import {parts[0]}"
            assert len(parts) == 1, f"{name_of(path)} reaches inside {target}"


#: Files that are short for a reason.
SHORT = {
    "__main__": "only calls the command",
    "_progress": "the one line of text on stderr, which fits and sweeps share",
    "_types": "types that everything imports, which imports nothing",
    "integrators._runge_kutta._crank_nicolson": "one method, of one coefficient",
    "nbody._forces._force": "the abstract base of forces",
}


def test_files_are_not_crumbs():
    """A concept has 40 lines, or there is a reason why not."""
    short = {
        name_of(path).partition(".")[2]
        for path in FILES
        if path.stem != "__init__" and path.read_text().count("\n") < MIN_FILE
    }
    assert short == SHORT.keys()


@for_each_file
def test_sub_packages_are_entered_by_their_front_doors(path):
    """A sub-package is imported as a whole, by those that the table lists."""
    package, *inside = name_of(path).split(".")[1:] or [""]
    if package not in MAY_IMPORT_INSIDE or not inside:
        return
    table, here = MAY_IMPORT_INSIDE[package], inside[0]
    for target in imports(path):
        other, *parts = target.split(".")[1:] or [""]
        if other != package or not parts or parts[0] == here or parts[0] not in table:
            continue
        assert len(parts) == 1, f"{name_of(path)} reaches inside {target}"
        if here in table:
            assert parts[0] in table[here], f"{here} may not import {parts[0]}"


def test_private_file_names_occur_once():
    seen = {}
    for path in FILES:
        if path.stem.startswith("_") and path.stem != "__init__":
            other = seen.setdefault(path.name, path)
            assert other is path, f"{path} and {other}"


def test_imports_have_no_cycles():
    graph = {m: imports(f, lazy=False) & MODULES.keys() for m, f in MODULES.items()}
    done, active = set(), []

    def visit(module):
        assert module not in active, " -> ".join([*active, module])
        if module not in done:
            active.append(module)
            for target in sorted(graph[module]):
                visit(target)
            done.add(active.pop())

    for module in sorted(graph):
        visit(module)


@for_each_file
def test_one_package_leans_on_the_inside_of_jax(path):
    """The next release of JAX touches one folder."""
    if path.relative_to(ROOT).parts[0] == "_jaxpr":
        return
    inside = ("jax.core", "jax.extend", "jax.interpreters", "jax._src")
    for node in ast.walk(parsed(path)):
        names = [ast.unparse(node)] if isinstance(node, ast.Attribute) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            assert not name.startswith(inside), f"{name}, line {node.lineno}"
            is_barrier = name.endswith("optimization_barrier")
            assert not is_barrier, f"take compute_once, line {node.lineno}"


@for_each_file
def test_files_and_functions_stay_within_their_size_limits(path):
    assert path.read_text().count("\n") <= MAX_FILE, "split the concept, not the file"
    assert len(path.relative_to(ROOT).parts) <= MAX_DEPTH
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=False) or ""
            lines = node.end_lineno - node.lineno + 1 - docstring.count("\n")
            assert lines <= MAX_FUNCTION, f"{node.name} has {lines} lines"


@for_each_file
def test_matrix_products_are_in_full_precision(path):
    """A GPU rounds others to TF32; pictures and tables are not computed there."""
    if path.relative_to(ROOT).parts[0] in {"cli", "plots"}:
        return
    contractions = {"dot", "vdot", "inner", "matmul", "tensordot", "einsum"}
    for node in ast.walk(parsed(path)):
        operator = getattr(node, "op", None)
        assert not isinstance(operator, ast.MatMult), f"write product, {node.lineno}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module = getattr(node.func.value, "id", None)
            if module == "jnp" and node.func.attr in contractions:
                given = {keyword.arg for keyword in node.keywords}
                assert "precision" in given, f"{node.func.attr}, line {node.lineno}"
