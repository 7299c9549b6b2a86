"""`diffsim info`: versions, devices, settings; and usage errors of commands."""

import importlib.metadata
import io
import os
import runpy
import subprocess
import sys

import jax
import pytest

from diffsim.cli import _main, main


def test_info_names_versions_devices_and_precision(monkeypatch, capsys):
    """As the module is run, `python -m diffsim info`."""
    monkeypatch.setattr(sys, "argv", ["diffsim", "info"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("diffsim", run_name="__main__")
    assert stop.value.code == 0
    lines = dict(x.split(maxsplit=1) for x in capsys.readouterr().out.splitlines())
    for package in ("jax", "equinox", "diffrax", "numpy", "matplotlib"):
        assert lines[package] == importlib.metadata.version(package)
    assert lines["device"].startswith(jax.devices()[-1].platform)
    assert lines["float64"] == "on"


def test_info_changes_no_flag(capsys):
    with jax.enable_x64(False):
        before = dict(jax.config.values), dict(os.environ)
        assert main(["info"]) == 0
        assert (dict(jax.config.values), dict(os.environ)) == before
    assert "float64     off, JAX's default" in capsys.readouterr().out


def test_info_reports_the_flags_of_the_user(monkeypatch, capsys):
    limit = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=4096"
    monkeypatch.setenv("XLA_FLAGS", limit)
    assert main(["info"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "loop fusion up to 4096 bytes a pass, by XLA_FLAGS"


_BY_ITSELF = """
import sys
import diffsim as ds
import diffsim.cli._main as command

ds.configure(num_cpu_devices=2, compilation_cache_dir=sys.argv[1])
command.demo = lambda *_, **__: command.main(["info"])
command.main(["demo"])
"""


def test_command_configures_its_own_process_beside_the_settings_in_force(tmp_path):
    given = "XLA_FLAGS", "JAX_ENABLE_X64"
    environment = {k: v for k, v in os.environ.items() if k not in given}
    command = [sys.executable, "-c", _BY_ITSELF, str(tmp_path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    *settings, fusion = run.stdout.splitlines()[-4:]
    assert settings == [
        "float64     on",
        "cpu devices 2",
        f"cache       {tmp_path}, programs that compile for 0 s or more",
    ]
    # JAX 0.12 does by itself what JAX 0.10 and 0.11 need a flag for.
    assert fusion.startswith(("loop fusion on, by jaxlib", "loop fusion up to 1048576"))


@pytest.mark.parametrize("words", [[], ["dance"], ["info", "--loud"]])
def test_unknown_command_is_a_usage_error(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "usage: diffsim" in capsys.readouterr().err


@pytest.mark.slow
def test_closed_output_pipe_of_a_process_causes_no_traceback():
    """`diffsim info | head -1`: the shell says 141 of a closed pipe."""
    command = [sys.executable, "-m", "diffsim", "info"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        ("info", False),
        ("verify", False),
        ("demo", True),
        ("verify --help", False),
        ("dance", False),
    ],
)
def test_closed_output_pipe_ends_a_command(words, unbuffered, monkeypatch):
    """Wherever it is noticed, and what is left to be written goes nowhere."""

    def row(*folder, **given):
        print("a row")
        return 1

    monkeypatch.setattr(_main, "verify", row)
    monkeypatch.setattr(_main, "demo", row)
    read, write = os.pipe()
    os.close(read)
    with io.TextIOWrapper(open(write, "wb", 0), write_through=unbuffered) as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        if words == "dance":
            monkeypatch.setattr(sys, "stderr", closed)
        assert main(words.split()) == 141
