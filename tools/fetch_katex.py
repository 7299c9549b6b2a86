"""Fetch KaTeX, which typesets the formulas of the site, into docs/assets/katex.

    python tools/fetch_katex.py 0.19.1

needs npm. Only what browsers of today load is kept: the program, its style sheet, the
fonts as woff2, and the license.
"""

import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile


OUT = pathlib.Path(__file__).parents[1] / "docs/assets/katex"
KEPT = {"dist/katex.min.js", "dist/katex.min.css", "LICENSE"}


def main(version: str):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", f"katex@{version}"], cwd=folder, check=True
        )
        (archive,) = pathlib.Path(folder).glob("*.tgz")
        shutil.rmtree(OUT / "fonts", ignore_errors=True)
        (OUT / "fonts").mkdir(parents=True)
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                name = member.name.removeprefix("package/")
                font = name.startswith("dist/fonts/") and name.endswith(".woff2")
                if name in KEPT or font:
                    path = OUT / name.removeprefix("dist/")
                    path.write_bytes(tar.extractfile(member).read())


if __name__ == "__main__":
    main(sys.argv[1])
