"""Fixed steps, looking out for events."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ._rows import Rows
from ._watch import Watch, ahead, crossings


class Onward(NamedTuple):
    """Where a run goes on; `values` are those of the events, taken where they count.

    The grid of fixed steps starts anew at `anchor` after a reset.
    """

    anchor: Array
    n: Array
    y: PyTree[Array]
    values: Array
    fresh: Array
    stopped: Array


def event_rows(
    watch: Watch, y0: PyTree[Array], t0: Array, step: Array, steps: int
) -> tuple[Rows, Onward]:
    """`steps` steps from `t0`, cut short where an event acts, and where they lead."""
    no = jnp.asarray(False)

    def one(here: Onward, _):
        t = here.anchor + here.n.astype(step.dtype) * step
        y = watch.aside(t, here.y, step)
        after = watch.values(t + step, y)
        crossed = crossings(watch.events, here.values, after) & ~here.stopped
        found = (step, Onward(here.anchor, here.n + 1, y, after, no, no), crossed)
        if any(event.acts for event in watch.events):
            acting = watch.acts() & crossed
            found = jax.lax.cond(
                jnp.any(acting),
                lambda acting: acted(watch, t, here, step, acting),
                lambda _, plain=found: plain,
                acting,
            )
        length, there, crossed = found
        stands = here._replace(stopped=jnp.asarray(True))
        there = jax.tree.map(lambda a, b: jnp.where(here.stopped, a, b), stands, there)
        length = jnp.where(here.stopped, 0, length)
        return there, Rows(t, here.y, length, here.fresh, crossed)

    start = Onward(t0, jnp.asarray(0), y0, watch.values(t0, y0), no, no)
    last, rows = jax.lax.scan(one, start, None, length=steps)
    return rows, last


def acted(watch: Watch, t, here: Onward, step, acting):
    """How long a step is up to the first event that acts, what follows it, and what
    the step has crossed by then.
    """
    events, args = watch.events, watch.args

    def wait(index, there):
        return watch.located(index, t, here.y, step, here.fresh, there=there)

    waits = jax.vmap(wait)(jnp.arange(len(events)), acting)
    waits = jnp.where(acting, waits, jnp.inf)
    first = jnp.argmin(waits)
    # Nothing infinite where nothing acts, of which NaN would come.
    length = jnp.where(jnp.any(acting), waits[first], 0)
    t, y = t + length, watch.quick(t, here.y, length)
    before = crossings(events, here.values, watch.values(t, y))
    crossed = jnp.where(jnp.arange(len(events)) == first, True, before & ~acting)
    stopped = jnp.asarray(False)
    for i, event in enumerate(events):
        stopped |= (first == i) & event.terminal
        if event.reset is not None:
            new = event.reset(t, y, args)
            y = jax.tree.map(lambda a, b, i=i: jnp.where(first == i, a, b), new, y)
    soon = ahead(step)
    values = watch.values(t + soon, watch.quick(t, y, soon))
    onward = Onward(t, jnp.asarray(0), y, values, jnp.asarray(True), stopped)
    return length, onward, crossed
