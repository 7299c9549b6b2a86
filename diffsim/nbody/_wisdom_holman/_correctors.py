r"""Symplectic correctors: a change of variables that takes off errors of order ε.

To first order in the perturbation leapfrog is the flow of
$A + \frac{x/2}{\sinh(x/2)} B$ with $x = h\,\mathrm{ad}_A$, and
$Z(a, b) = e^{aA} e^{bB} e^{-2aA} e^{-bB} e^{aA}$, twice each, changes it by
$4 b\,x \sinh(a x) B$. Coefficients b at $a = i \sqrt{7/40}$, i = 1 ... n, take away the
powers up to $x^{2n}$: they solve n linear equations (Wisdom, Holman & Touma 1996;
Wisdom 2006 for 11 and 17).
"""

import math

from ._kepler_splitting import Stage


#: Length of the drifts of a corrector, in steps.
_APART = math.sqrt(7 / 40)

#: By order, b for i = 1 ... n.
CORRECTORS: dict[int, tuple[float, ...]] = {
    0: (),
    3: (0.0249005960277998674993,),
    5: (0.0415009933796664458322, -0.0083001986759332891664),
    7: (
        0.0539643990931274987217,
        -0.0182709232467021314780,
        0.0024926811426922105779,
    ),
    11: (
        0.0725933947488427386742,
        -0.0381216136812886505086,
        0.0123090785920199463175,
        -0.0023487215292295354188,
        0.0002036157964785465130,
    ),
    17: (
        0.0930561037714259585915,
        -0.0651928635763778936585,
        0.0324221988647135802936,
        -0.0120717608223422910625,
        0.0033132577069380655655,
        -0.0006359998307581765897,
        0.0000764363552279357383,
        -0.0000043347415473373580,
    ),
}


def corrector_reach(order: int) -> float:
    """How far a corrector follows orbits, in steps."""
    return _APART * len(CORRECTORS[order])


def corrector_stages(order: int) -> tuple[Stage, ...]:
    """The corrector, applied before the first step; nothing for 0."""
    outwards = [(i * _APART, b) for i, b in enumerate(CORRECTORS[order], 1)]
    inwards = [(-a, -b) for a, b in outwards[::-1]]
    stages = []
    for a, b in inwards + outwards:
        stages += [("drift", a), ("kick", -b), ("drift", -2 * a)]
        stages += [("kick", b), ("drift", a)]
    return merged(tuple(Stage(flow, share, even=True) for flow, share in stages))


def merged(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """The same, with one drift in place of two that follow each other."""
    joined: list[Stage] = []
    for stage in stages:
        last = joined[-1] if joined else None
        alike = last is not None and last[::2] == stage[::2] == ("drift", stage.even)
        if last is not None and alike:
            joined[-1] = last._replace(share=last.share + stage.share)
            continue
        joined.append(stage)
    return tuple(joined)
