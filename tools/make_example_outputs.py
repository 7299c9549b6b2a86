"""Make docs/outputs anew: what the examples print, which the documentation shows.

python tools/make_example_outputs.py              # of all examples
python tools/make_example_outputs.py 01_two_bodies
"""

import os
import pathlib
import subprocess
import sys
import tempfile


ROOT = pathlib.Path(__file__).resolve().parents[1]
OUTPUTS = ROOT / "docs" / "outputs"


def output_of(script: pathlib.Path) -> str:
    """What a script prints, run where the pictures that it saves do not stay."""
    environment = os.environ | {"MPLBACKEND": "Agg"}
    with tempfile.TemporaryDirectory() as place:
        return subprocess.check_output(
            [sys.executable, str(script)], cwd=place, env=environment, text=True
        )


def main(names: list[str]):
    """Write the output of each example that is named, or of all."""
    for script in sorted((ROOT / "examples").glob("*.py")):
        if not names or script.stem in names:
            print(script.stem, flush=True)
            (OUTPUTS / f"{script.stem}.txt").write_text(output_of(script))


if __name__ == "__main__":
    main(sys.argv[1:])
