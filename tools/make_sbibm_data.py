"""Gather reference posteriors of two sbibm tasks into one small JSON file.

    python tools/make_sbibm_data.py sbibm-1.1.0-py2.py3-none-any.whl

The archive is sbibm's wheel (`pip download --no-deps sbibm==1.1.0`), under the MIT
license; see tests/data_sbibm/README.md.
"""

import bz2
import csv
import io
import json
import pathlib
import sys
import zipfile

import numpy as np


OUT = pathlib.Path(__file__).parents[1] / "tests/data_sbibm/sbibm_posteriors.json"


def table(raw: bytes) -> tuple[list[str], np.ndarray]:
    """Column names and rows of a file of numbers."""
    names, *rows = csv.reader(io.StringIO(raw.decode()))
    return names, np.array(rows, float)


def posterior(archive: zipfile.ZipFile, folder: str) -> dict:
    """One observation, and what the reference draws say of it."""
    _, observation = table(archive.read(f"{folder}/observation.csv"))
    names, true = table(archive.read(f"{folder}/true_parameters.csv"))
    packed = archive.read(f"{folder}/reference_posterior_samples.csv.bz2")
    _, draws = table(bz2.decompress(packed))
    return {
        "observation": observation[0].tolist(),
        "true": true[0].tolist(),
        "mean": draws.mean(axis=0).tolist(),
        "sd": draws.std(axis=0, ddof=1).tolist(),
        "draws": len(draws),
        "names": names,
    }


def main(wheel: str):
    with zipfile.ZipFile(wheel) as archive:
        found = {
            task: {
                str(i): posterior(
                    archive, f"sbibm/tasks/{task}/files/num_observation_{i}"
                )
                for i in (1, 2, 3)
            }
            for task in ("sir", "lotka_volterra")
        }
    rows = [
        f"{json.dumps(task)}: {{\n"
        + ",\n".join(f"{json.dumps(i)}: {json.dumps(x)}" for i, x in each.items())
        + "\n}"
        for task, each in found.items()
    ]
    OUT.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
