"""`diffsim info`: versions, devices, precision."""

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
    code = "import sys; from diffsim.cli import main; sys.exit(main(['info']))"
    environment = {k: v for k, v in os.environ.items() if k != "JAX_ENABLE_X64"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "float64     off, JAX's default" in run.stdout


@pytest.mark.parametrize("words", [[], ["dance"], ["info", "--loud"]])
def test_a_command_that_does_not_exist_is_refused(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "usage: diffsim" in capsys.readouterr().err
