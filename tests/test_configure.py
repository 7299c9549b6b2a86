"""`ds.configure`: settings take effect before JAX starts, and raise afterwards."""

import json
import os
import pathlib
import re
import subprocess
import sys

import jax
import pytest


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
#: Where JAX itself compiles a small loop into one kernel.
FUSES_BY_ITSELF = jax.__version_info__ >= (0, 12)
LIMIT = "xla_cpu_small_while_loop_byte_threshold"
FLAG = f"--xla_backend_extra_options={LIMIT}=1048576"
#: Flags that XLA knows, as a user may have set them.
FOREIGN = "--xla_cpu_enable_fast_min_max=false"
OPTIONS = "--xla_backend_extra_options=xla_cpu_optimize_for_size=false"

WRONG = {
    "enable_x64=64": "enable_x64 must be one of None, True, False, got 64",
    "cpu_loop_fusion='on'": "cpu_loop_fusion must be one of .* got 'on'",
    "num_cpu_devices=0": r"num_cpu_devices must be .* from 1, got 0; os.cpu_count",
    "num_cpu_devices=True": "num_cpu_devices must be .* got True",
    "num_cpu_devices=2.0": "num_cpu_devices must be .* got 2.0",
    "compilation_cache_dir=''": "compilation_cache_dir must be .*diffsim.* got None",
    "compilation_cache_dir=b'x'": "compilation_cache_dir must be .* got b'x'",
    "compilation_cache_dir=__file__": "compilation_cache_dir must be .* can be made",
}
#: `XLA_FLAGS` before, and with `cpu_loop_fusion=True` where JAX needs the flag.
FLAGS = {
    "": FLAG,
    FOREIGN: f"{FOREIGN} {FLAG}",
    OPTIONS: f"{OPTIONS} {FLAG}",
    f"{OPTIONS},{LIMIT}=64": f"{OPTIONS},{LIMIT}=64",
    FLAG: FLAG,
}

#: All that needs a process of its own, in one: before JAX starts and after.
SESSION = """
import json, os, sys
import jax, jax.numpy as jnp
import diffsim as ds

wrong, flags, folder = json.loads(sys.argv[1])
found = {"sentences": {}, "flags": {}, "late": {}}

def sentence(arguments):
    try:
        eval(f"ds.configure({arguments})")
    except (ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"

def settings():
    return dict(jax.config.values), dict(os.environ)

before = settings()
ds.configure()
for arguments in wrong:
    found["sentences"][arguments] = sentence(arguments)
found["nothing changed"] = settings() == before

found["file"] = file = os.path.join(folder, "flags.txt")
with open(file, "w") as text:
    text.write(flags[1])
for given in [*flags, file]:
    os.environ["XLA_FLAGS"] = given
    ds.configure(cpu_loop_fusion=True)
    on = os.environ["XLA_FLAGS"]
    ds.configure(cpu_loop_fusion=False)
    found["flags"][given] = on, os.environ.get("XLA_FLAGS", "")
del os.environ["XLA_FLAGS"]

first, second = (os.path.join(folder, name, "of compiled") for name in "ab")
asked = dict(enable_x64=True, num_cpu_devices=3, cpu_loop_fusion=True)
ds.configure(compilation_cache_dir=first, **asked)

def loop(x):
    def turn(_, x):
        return jnp.cumsum(jnp.sin(x)) / (1 + jnp.sum(x * x))
    return jax.lax.fori_loop(0, 9, turn, x)

# XLA marks what it compiles into one kernel as a call of that name.
compiled = jax.jit(loop).lower(jnp.ones(512)).compile()
found["one kernel"] = "small_call" in compiled.as_text()
found["devices"], found["dtype"] = len(jax.devices()), str(jnp.ones(1).dtype)
found["kept"] = bool(os.listdir(first))

# JAX has started.
before = settings()
found["again"] = sentence(f"**{asked}")
found["started"] = settings() == before
found["late"]["num_cpu_devices"] = sentence("num_cpu_devices=2, enable_x64=False")
found["late"]["cpu_loop_fusion"] = sentence("cpu_loop_fusion=False")
found["unchanged"] = settings() == before
ds.configure(enable_x64=False, compilation_cache_dir=second)
found["late dtype"] = str(jnp.ones(1).dtype)
jax.jit(loop)(jnp.ones(7)).block_until_ready()
found["kept late"] = bool(os.listdir(second))
print(json.dumps(found))
"""

#: What a second process finds compiled, of a run and its gradient.
RUN = """
import collections
import jax, numpy as np
from diffsim import nbody

counts = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: counts.update([event]))
jax.monitoring.register_event_duration_secs_listener(
    lambda event, _, **__: counts.update([event])
)

def end(masses):
    x, v = [[0, 0, 0], [1, 0, 0]], [[0, 0, 0], [0, 1, 0]]
    system = nbody.NBody(nbody.Bodies(masses, x, v))
    return ds.simulate(system, 3.0).states.positions[1, 0]

assert jax.grad(end)(np.array([1, 1e-3])).dtype == "float64"
print(counts["/jax/core/compile/backend_compile_duration"],
      counts["/jax/compilation_cache/cache_hits"])
"""


def in_a_process(code, *words, **environment):
    """What the code prints, in a process that nothing has been set in."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "XLA_FLAGS" and not name.startswith("JAX_")
    }
    run = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**kept, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("session")
    code = SESSION.replace("__file__", repr(__file__))
    wrong = [row.replace("__file__", repr(__file__)) for row in WRONG]
    given = json.dumps([wrong, list(FLAGS), str(folder)])
    found = json.loads(in_a_process(code, given))
    found["sentences"] = dict(zip(WRONG, found["sentences"].values(), strict=True))
    return found


@pytest.mark.parametrize("arguments", WRONG)
def test_invalid_setting_raises_value_error(session, arguments):
    assert re.match(f"ValueError: {WRONG[arguments]}", session["sentences"][arguments])


def test_configure_without_arguments_changes_nothing(session):
    assert session["nothing changed"]


@pytest.mark.parametrize("given", FLAGS)
def test_other_flags_stay_as_the_user_set_them(session, given):
    on, off = session["flags"][given]
    assert on == (given if FUSES_BY_ITSELF else FLAGS[given])
    assert off == ("" if given == FLAG else given)


def test_flags_in_a_file_are_merged(session):
    """XLA would take the name of a file with a flag behind it for a longer name."""
    on, _ = session["flags"][session["file"]]
    assert on == (session["file"] if FUSES_BY_ITSELF else FLAGS[FOREIGN])


def test_settings_made_before_the_first_array_take_effect(session):
    assert session["one kernel"]
    assert session["devices"] == 3
    assert session["dtype"] == "float64"
    assert session["kept"]


def test_repeated_call_is_no_error(session):
    assert session["again"] is None
    assert session["started"]


def test_setting_after_jax_has_started_raises_runtime_error(session):
    late = session["late"]
    words = r"RuntimeError: {} must be set before JAX starts.* right after the imports"
    assert re.match(words.format("num_cpu_devices=2"), late["num_cpu_devices"])
    if FUSES_BY_ITSELF:  # where no flag was set, none is taken out
        assert late["cpu_loop_fusion"] is None
    else:
        found = late["cpu_loop_fusion"]
        assert re.match(words.format("cpu_loop_fusion=False"), found)
    assert session["unchanged"]


def test_precision_and_cache_directory_may_change_after_jax_has_started(session):
    assert session["late dtype"] == "float32"
    assert session["kept late"]


@pytest.mark.slow
def test_second_process_compiles_nothing(tmp_path):
    """By the lines of the documentation, in a home of its own."""
    page = (REPOSITORY / "docs" / "choose.md").read_text()
    lines = re.search(r"^```py\n(.*?ds\.configure\(.*?)^```$", page, re.M | re.S)[1]
    in_a_process(lines + RUN, HOME=str(tmp_path))
    compiled, hits = in_a_process(lines + RUN, HOME=str(tmp_path)).split()
    assert int(hits) == int(compiled) > 10
