"""`WisdomHolman`: Kepler orbits that are kicked by what perturbs them."""

from typing import Any, ClassVar

import equinox as eqx

from ._choices import check_choice
from ._correctors import CORRECTORS, corrector_stages, merged
from ._frames import FRAMES
from ._kepler_splitting import AbstractKeplerSplitting, Stage


#: By name, the flow over each share of a step between the drifts at its ends, whose
#: shares are the first and the last.
_KERNELS: dict[str, tuple[tuple[str, float], ...]] = {
    "default": (("drift", 1 / 2), ("kick", 1.0), ("drift", 1 / 2)),
    "modified kick": (("drift", 1 / 2), ("modified kick", 1.0), ("drift", 1 / 2)),
    "lazy": (("drift", 1 / 2), ("lazy kick", 1.0), ("drift", 1 / 2)),
    "composition": (
        ("drift", 5 / 8),
        ("kick", -1 / 6),
        ("drift", -1 / 4),
        ("kick", 1 / 6),
        ("drift", 1 / 8),
        ("kick", 1.0),
        ("drift", -1 / 8),
        ("kick", -1 / 6),
        ("drift", 1 / 4),
        ("kick", 1 / 6),
        ("drift", 3 / 8),
    ),
}


class WisdomHolman(AbstractKeplerSplitting):
    coordinates: str = eqx.field(static=True, default="jacobi", kw_only=True)
    corrector: int = eqx.field(static=True, default=0, kw_only=True)
    kernel: str = eqx.field(static=True, default="default", kw_only=True)

    references: ClassVar[tuple[str, ...]] = (
        "10.1086/115978",
        "10.1086/502970",
        "10.1093/mnras/stv1257",
        "10.1093/mnras/stz2503",
    )

    def __check_init__(self) -> None:
        check_choice("coordinates", self.coordinates, FRAMES)
        check_choice("corrector", self.corrector, CORRECTORS)
        check_choice("kernel", self.kernel, _KERNELS)
        if self.kernel != "default" and self.coordinates != "jacobi":
            raise ValueError(
                f"kernel={self.kernel!r} needs coordinates='jacobi', in which "
                f"perturbations depend on positions alone, got {self.coordinates!r}"
            )

    def order(self, terms: Any) -> int:
        del terms
        return 2

    @property
    def entry(self) -> tuple[Stage, ...]:
        first = Stage("drift", _KERNELS[self.kernel][0][1])
        return (*corrector_stages(self.corrector), first)

    @property
    def cycle(self) -> tuple[Stage, ...]:
        first, *kernel = (Stage(*stage) for stage in _KERNELS[self.kernel])
        return merged((*kernel, first))
