"""`diffsim info`: versions, devices, settings; and usage errors of commands."""

import importlib.metadata
import os
import subprocess
import sys

import jax
import pytest

from diffsim.cli import main


def test_info_names_versions_devices_and_precision(capsys):
    assert main(["info"]) == 0
    lines = dict(x.split(maxsplit=1) for x in capsys.readouterr().out.splitlines())
    for package in ("jax", "equinox", "diffrax", "numpy", "matplotlib"):
        assert lines[package] == importlib.metadata.version(package)
    assert lines["device"].startswith(jax.devices()[-1].platform)
    assert lines["float64"] == "on"


def test_info_changes_no_flag():
    command = [sys.executable, "-m", "diffsim", "info"]
    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "float64     off, JAX's default" in run.stdout


_IN_FORCE = """
import os, sys
import diffsim as ds

ds.configure(enable_x64=True, num_cpu_devices=2, compilation_cache_dir=sys.argv[1])
os.environ["XLA_FLAGS"] = sys.argv[2]
ds.cli.main(["info"])
"""


def test_info_reports_the_settings_in_force(tmp_path):
    limit = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=4096"
    command = [sys.executable, "-c", _IN_FORCE, str(tmp_path), limit]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-4:] == [
        "float64     on",
        "cpu devices 2",
        f"cache       {tmp_path}, programs that compile for 0 s or more",
        "loop fusion up to 4096 bytes a pass, by XLA_FLAGS",
    ]


_BY_ITSELF = """
import diffsim.cli._main as command

command.demo = lambda *_, **__: command.main(["info"])
command.main(["demo"])
"""


def test_command_configures_its_own_process():
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    command = [sys.executable, "-c", _BY_ITSELF]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "\nfloat64     on\n" in run.stdout
    # JAX 0.12 does by itself what JAX 0.10 and 0.11 need a flag for.
    fusion = run.stdout.splitlines()[-1]
    assert fusion.startswith(("loop fusion on, by jaxlib", "loop fusion up to 1048576"))


@pytest.mark.parametrize("words", [[], ["dance"], ["info", "--loud"]])
def test_unknown_command_is_a_usage_error(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "usage: diffsim" in capsys.readouterr().err


#: Stands for commands that take minutes.
_QUICK = """
import sys
import diffsim.cli._main as command

def row(*folder, **given):
    print("a row")
    return 1

command.verify = command.demo = row
sys.exit(command.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [("info", ""), ("verify", ""), ("demo", "1"), ("verify --help", ""), ("dance", "")],
)
def test_closed_output_pipe_causes_no_traceback(words, unbuffered):
    """`diffsim verify 2>&1 | head -1`: the shell says 141 of a closed pipe."""
    process = subprocess.Popen(
        [sys.executable, "-c", _QUICK, *words.split()],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if words == "dance" else subprocess.PIPE,
        text=True,
    )
    process.stdout.close()
    if words != "dance":
        assert process.stderr.read() == ""
        process.stderr.close()
    assert process.wait(timeout=120) == 141
