"""Writers of movies: GIF by Pillow, MP4 by ffmpeg."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._atomic_file import check_file
from ._style import module


if TYPE_CHECKING:
    import matplotlib.animation


_VIDEO = (".mp4", ".m4v")
#: Frames from which the colors of all are taken, and how many these are. Of twice as
#: many a file is a fifth larger, and colors are no truer.
_SAMPLES, _COLORS = 8, 128


def movie_writer(
    path: Path, fps: float | int
) -> "matplotlib.animation.AbstractMovieWriter":
    """The writer of a file of this name.

    **Raises:** `ValueError` for another kind of file or no such folder, `RuntimeError`
    where ffmpeg is missing.
    """
    animation = module("matplotlib.animation")
    check_file("path", path)
    if not path.absolute().parent.is_dir():
        raise ValueError(
            f"path must lie in a folder that exists, got {str(path)!r}; make "
            f"{str(path.parent)!r} before"
        )
    kind = path.suffix.lower()
    if kind == ".gif":
        return _gif_writer(animation, fps)
    if kind not in _VIDEO:
        raise ValueError(
            f"path must end with .gif or .mp4, got {str(path)!r}, which no writer knows"
        )
    if not animation.FFMpegWriter.isAvailable():
        raise RuntimeError(
            f"animate writes {kind} by ffmpeg, which is not installed: `conda install "
            "ffmpeg`, or that of your system; .gif needs nothing more"
        )
    return animation.FFMpegWriter(fps=fps)


def _gif_writer(
    animation: Any, fps: float | int
) -> "matplotlib.animation.AbstractMovieWriter":
    """A writer whose frames share their colors."""
    image = module("PIL.Image")

    class SharedPaletteWriter(animation.PillowWriter):
        """Matplotlib's own takes 256 colors for each frame.

        What stays then changes by a shade from frame to frame and is stored again, in
        files of twice the size.
        """

        def finish(self):
            first, *others = _with_shared_palette(image, self._frames)
            first.save(
                self.outfile,
                save_all=True,
                append_images=others,
                duration=int(1000 / self.fps),
                loop=0,
            )

    return SharedPaletteWriter(fps=fps)


def _with_shared_palette(image: Any, frames: list[Any]) -> list[Any]:
    """Frames in the colors that cover those of all of them best."""
    some = frames[:: max(1, len(frames) // _SAMPLES)]
    width, height = frames[0].size
    together = image.new("RGB", (width, height * len(some)))
    for number, frame in enumerate(some):
        together.paste(frame, (0, height * number))
    palette = together.quantize(_COLORS, method=image.Quantize.MAXCOVERAGE)
    plain = image.Dither.NONE
    found = [x.convert("RGB").quantize(palette=palette, dither=plain) for x in frames]
    # A color stands for all that are near, also for those of paper, which stays white.
    colors, paper = palette.getpalette(), found[0].getpixel((0, 0))
    colors[3 * paper : 3 * paper + 3] = together.getpixel((0, 0))
    for frame in found:
        frame.putpalette(colors)
    return found
