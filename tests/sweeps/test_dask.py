"""Dask's workers compute the runs of a sweep, and one that dies is replaced."""

import os
import signal
import threading

import jax.numpy as jnp
import numpy as np
import pytest

from diffsim import sweeps
from diffsim.sweeps import SweepOptions, sweep


distributed = pytest.importorskip("distributed")

_OVER = {"[0]": np.linspace(0.5, 1.5, 100)}


def _spring(x):
    import jax  # as the worker has it

    def step(carry, _):
        position, speed = carry
        speed = speed - 0.01 * x * position
        return (position + 0.01 * speed, speed), None

    return jax.lax.scan(step, (jnp.ones(x.shape), x), None, length=50)[0]


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of sockets, which Dask closes late
def test_workers_find_what_one_process_finds_though_one_is_killed(client, tmp_path):
    pytest.importorskip("zarr")
    alone, killed, seen = sweep(_spring, jnp.ones(1), _OVER, batch=8), [], []

    def kill(state):
        seen.append(state["done"])
        if state["done"] > 20 and not killed:
            killed.extend(client.run(os.getpid).values())
            os.kill(killed[0], signal.SIGKILL)

    options = SweepOptions(engine=client, chunk=8, progress=kill)
    found = sweep(_spring, jnp.ones(1), _OVER, batch=8, options=options)
    assert len(killed) == 2 and seen[-1] == 100 and len(seen) == 13
    for mine, other in zip(found.outputs, alone.outputs, strict=True):
        np.testing.assert_array_equal(mine, other)
    path = tmp_path / "runs.zarr"
    options = SweepOptions(engine=client, chunk=8)
    stored = sweep(_spring, jnp.ones(1), _OVER, batch=8, store=path, options=options)
    np.testing.assert_array_equal(stored.outputs[0], alone.outputs[0])
    again = sweep(_spring, jnp.ones(1), _OVER, batch=8, store=path)
    assert again.stats["computed"] == 0
    assert sweeps.store_status(path).chunks_done == 13


class _NoClient:
    """Of Dask's, as far as a sweep looks before it sends."""

    def submit(self, *_, **__):
        raise AssertionError("nothing is sent")

    def scheduler_info(self):
        return {"workers": {}}


def test_function_that_cannot_be_pickled_raises_value_error():
    lock = threading.Lock()

    def predict(x):
        with lock:
            return x

    with pytest.raises(ValueError, match=r"cannot be pickled .*lock"):
        sweep(predict, jnp.ones(1), _OVER, options=SweepOptions(engine=_NoClient()))
