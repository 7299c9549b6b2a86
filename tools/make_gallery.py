"""Make the pictures of the gallery anew, from the code beside them on its pages.

    python tools/make_gallery.py                  # all of them
    python tools/make_gallery.py solar_system     # those whose names are given

A picture of docs/gallery is `![words](images/NAME.webp)` below a block of Python, which
draws it: its `figure`, or else the one that is open, is saved. Every block runs in a
process of its own, after the imports at the top of docs/gallery/index.md.

    python tools/make_gallery.py --to FOLDER NAME
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple


ROOT = pathlib.Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery"
_PICTURE = re.compile(
    r"^```python\n((?:(?!^```).*\n)*?)```\n\n!\[([^\]]+)\]\(images/(\w+)\.webp\)", re.M
)
# A tenth of the bytes of PNG, so that all pictures take little of the repository.
_END = """
drawn = globals().get("figure") or plt.gcf()
drawn.savefig({path!r}, dpi=130, pil_kwargs={{"quality": 90, "method": 6}})
"""


class Picture(NamedTuple):
    """One of the gallery: its name, the code that draws it, and what it shows."""

    name: str
    code: str
    words: str


def pictures() -> list[Picture]:
    """All pictures, in the order of the pages."""
    pages = sorted(GALLERY.glob("*.md"))
    found = [_PICTURE.findall(page.read_text()) for page in pages]
    return [Picture(name, code, words) for page in found for code, words, name in page]


def imports() -> str:
    """The first block of the first page, which all others presume."""
    text = (GALLERY / "index.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)[0]


def make(picture: Picture, folder: pathlib.Path):
    """Draw a picture into `folder`; exits where its code fails."""
    path = str(folder / f"{picture.name}.webp")
    code = imports() + picture.code + _END.format(path=path)
    environment = os.environ | {"MPLBACKEND": "Agg"}
    command = [sys.executable, "-c", code]
    # Examples are run where the pictures that they save do not stay.
    with tempfile.TemporaryDirectory() as place:
        for name in ("docs", "examples"):
            pathlib.Path(place, name).symlink_to(ROOT / name)
        done = subprocess.run(command, cwd=place, env=environment, check=False)
    if done.returncode:
        sys.exit(f"the code of {picture.name} failed")


def main():
    parser = argparse.ArgumentParser(description="Make the pictures of the gallery.")
    parser.add_argument("names", nargs="*", help="which ones; all if none is given")
    parser.add_argument("--to", type=pathlib.Path, default=GALLERY / "images")
    given = parser.parse_args()
    known = pictures()
    unknown = set(given.names) - {picture.name for picture in known}
    if unknown:
        parser.error(f"{sorted(unknown)} are not among {[p.name for p in known]}")
    for picture in known:
        if not given.names or picture.name in given.names:
            print(picture.name, flush=True)
            make(picture, given.to.resolve())


if __name__ == "__main__":
    main()
