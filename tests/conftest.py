"""Tests run in float64 and check every annotation of diffsim while it runs.

Checks take a tenth of the time; DIFFSIM_UNCHECKED=1 leaves them to others.
"""

import gc
import itertools
import os
import pathlib
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import zlib


# Most of the time is compilation, of which XLA's older emitters take 0.7 where there
# are any (JAX 0.10), and code that LLVM does not optimize 0.6. Set by the environment,
# even to nothing, the flags stay. XLA ends a process one of whose flags it does not
# know, so each is tried on a process that nobody needs.
_FLAGS = "XLA_FLAGS"
_QUICK = (
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_backend_optimization_level=0",
)


def _known(flags):
    trials = [
        subprocess.Popen(
            [sys.executable, "-c", "import jax; jax.devices()"],
            env=os.environ | {_FLAGS: flag},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for flag in flags
    ]
    ends = [trial.wait() for trial in trials]
    return [flag for flag, end in zip(flags, ends, strict=True) if end == 0]


# Workers that share a GPU would each take three quarters of its memory.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

if _FLAGS not in os.environ:
    os.environ[_FLAGS] = " ".join(_known(_QUICK))

import jax  # noqa: E402
import pytest  # noqa: E402
from jaxtyping import install_import_hook  # noqa: E402


# beartype refuses `Self` on methods that it meets without their class, as the hook
# presents them; there it stands for anything, everything else is checked.
_CHECKER = (
    "beartype.beartype(conf=beartype.BeartypeConf(hint_overrides="
    "beartype.FrozenDict({__import__('typing').Self: object})))"
)

# Before anything imports diffsim: modules imported earlier would go unchecked. Nothing
# in `_jit` is annotated with a shape, and most calls go there.
_SOURCES = pathlib.Path(__file__).resolve().parents[1] / "diffsim"
_CHECKED = {module.name for module in pkgutil.iter_modules([str(_SOURCES)])} - {"_jit"}
if "DIFFSIM_UNCHECKED" not in os.environ:
    install_import_hook([f"diffsim.{name}" for name in sorted(_CHECKED)], _CHECKER)

jax.config.update("jax_enable_x64", True)

#: What another release of Python, JAX or a dependency is most likely to break, and the
#: front door of every package. `.ci/run` runs it with the oldest releases.
_CORE = {
    "cli": ("test_demo", "test_info"),
    "implicit": ("test_jax_transformations", "test_upstream"),
    "inference": ("test_fit", "test_fisher"),
    "integrators": ("test_kencarp", "test_diffrax"),
    "nbody": ("test_bodies", "test_problems"),
    "pde": ("test_diffusion", "test_spectral"),
    "plots": ("test_plots",),
    "simulations": (
        "test_events",
        "test_labeled_data",
        "test_outputs",
        "test_serialization",
    ),
    "sweeps": ("test_random_programs", "test_sweep", "test_batch_last"),
    "tests": ("test_configure", "test_primitives", "test_parameter_selection"),
    "verify": ("test_check_simulation", "test_taylor"),
}

_COMPILED = "JAX_COMPILATION_CACHE_DIR"
_created: list[str] = []


def pytest_configure(config):
    """What one test has compiled serves all others of this run, workers included.

    A directory that the environment names already is kept for the next run, too.
    """
    if _COMPILED not in os.environ:
        _created.append(tempfile.mkdtemp(prefix="diffsim-tests-"))
        os.environ[_COMPILED] = _created[0]
    elif not hasattr(config, "workerinput"):
        _delete_unreadable(pathlib.Path(os.environ[_COMPILED]))
    jax.config.update("jax_compilation_cache_dir", os.environ[_COMPILED])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


def _delete_unreadable(folder):
    """Delete what a process left half written: JAX would never write it again."""
    for entry in folder.glob("*-cache"):
        if not _is_whole(entry.read_bytes()):
            entry.unlink(missing_ok=True)


_ZSTANDARD = bytes.fromhex("28b52ffd")


def _is_whole(program):
    """Whether it can be read: JAX compresses by zlib, or by Zstandard where that is."""
    decompress, errors = zlib.decompress, zlib.error
    if program.startswith(_ZSTANDARD):
        if sys.version_info < (3, 14):
            return True
        from compression import zstd

        decompress, errors = zstd.decompress, zstd.ZstdError
    try:
        decompress(program)
    except errors:
        return False
    return True


def pytest_collection_modifyitems(items):
    """Mark the plain rows of `_CORE`."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        listed = item.path.stem in _CORE.get(item.path.parent.name, ())
        if listed and not marks & {"slow", "release"}:
            item.add_marker("core")


_LEFT_OUT = []


def pytest_deselected(items):
    """What `-m` leaves out has a budget, too."""
    _LEFT_OUT.extend(items)


@pytest.fixture
def every_row(request):
    """All rows that were collected, also those that do not run."""
    return [*request.session.items, *_LEFT_OUT]


def pytest_collection_finish(session):
    """Tracing makes objects by the million; searching them less often saves 0.07."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_unconfigure(config):
    for directory in _created:
        shutil.rmtree(directory, ignore_errors=True)


#: Files whose compiled programs a worker keeps: those of all fill 6 GB, and where none
#: are kept the small ones that every file needs are traced and lowered again.
_KEPT_FILES = 5
_files = itertools.count(1)


@pytest.fixture(scope="module", autouse=True)
def _compiled_programs_are_let_go():
    yield
    if next(_files) % _KEPT_FILES == 0:
        jax.clear_caches()


@pytest.fixture
def compilations():
    """How many programs XLA has compiled since the test began, or read from a cache."""
    found = []

    def listen(event, duration, **kwargs):
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield lambda: len(found)
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def one_nesting(monkeypatch):
    """`check_simulation` takes Hessians forward over reverse: others try all four."""
    from diffsim.verify import _simulation_checks

    nestings = ((jax.jacfwd, jax.jacrev),)
    monkeypatch.setattr(_simulation_checks, "_NESTINGS", nestings)
