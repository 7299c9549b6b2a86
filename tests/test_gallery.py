"""The gallery has a picture for every equation and example, each made by its code."""

import inspect
import pathlib
import re
import runpy

import numpy as np
import pytest

from diffsim import pde


REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
GALLERY = REPOSITORY / "docs" / "gallery"
TOOL = runpy.run_path(str(REPOSITORY / "tools" / "make_gallery.py"))
PICTURES = {picture.name: picture for picture in TOOL["pictures"]()}
#: Three that together use fields, orbits and inference, and take seconds.
REMADE = ("burgers", "figure_eight", "corner")


def test_every_picture_is_there_and_on_the_first_page():
    assert len(PICTURES) >= 24
    files = {path.stem for path in (GALLERY / "images").glob("*.webp")}
    assert files == PICTURES.keys()
    first = (GALLERY / "index.md").read_text()
    assert set(re.findall(r"images/(\w+)\.webp", first)) == PICTURES.keys()


def test_pictures_are_small():
    """3 MB in all; the largest has 116 kB."""
    sizes = [path.stat().st_size for path in (GALLERY / "images").iterdir()]
    assert max(sizes) < 150e3
    assert sum(sizes) < 3e6


def test_code_of_a_picture_is_short():
    """About ten lines; a class of one's own takes a few more."""
    lengths = {name: len(p.code.strip().splitlines()) for name, p in PICTURES.items()}
    assert max(lengths.values()) <= 17, lengths
    assert np.median(list(lengths.values())) <= 10


def test_every_equation_has_a_picture():
    code = "\n".join(picture.code for picture in PICTURES.values())
    kinds = pde.AbstractEquation, pde.IncompressibleFlow
    for name in pde.__all__:
        thing = getattr(pde, name)
        if inspect.isclass(thing) and issubclass(thing, kinds):
            assert inspect.isabstract(thing) or f"pde.{name}(" in code, name


def test_every_example_has_a_picture():
    code = "\n".join(picture.code for picture in PICTURES.values())
    for path in (REPOSITORY / "examples").glob("*.py"):
        assert f"examples/{path.name}" in code, path.name


@pytest.mark.slow
@pytest.mark.about("tools/make_gallery.py")
@pytest.mark.parametrize("name", REMADE)
def test_picture_is_what_its_code_draws(name, tmp_path):
    """Seen from afar: another Matplotlib places letters a little otherwise."""
    image = pytest.importorskip("PIL.Image")
    TOOL["make"](PICTURES[name], tmp_path)
    new, old = (
        np.asarray(image.open(folder / f"{name}.webp").convert("L").resize((48, 36)))
        for folder in (tmp_path, GALLERY / "images")
    )
    # Measured: 0.2; a picture of anything else differs by 20 and more.
    assert np.mean(np.abs(new.astype(float) - old.astype(float))) < 3
