"""The Python blocks of one page, run from top to bottom with all they show.

    python docs/_run_page.py PAGE FOLDER

goes to FOLDER, runs the blocks in one namespace, and leaves `outputs.json` and the
pictures there. A block shows what it prints, its figures and the images that it saves,
and where it has drawn nothing the value of its last line.
"""

import ast
import contextlib
import fnmatch
import io
import json
import os
import pathlib
import re
import sys
import time
import traceback


BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
IMAGES = {".gif", ".png", ".svg", ".webp"}
# What the build of the site runs; tests/test_docs.py runs the blocks of all others.
EXECUTED = ("index.md", "clusters.md", "tutorials/*.md")


def is_executed(page: str) -> bool:
    """Whether the build of the site runs this page, a path below docs/."""
    return any(fnmatch.fnmatch(page, pattern) for pattern in EXECUTED)


def blocks(text: str) -> list[str]:
    """The code of every block, below as many empty lines as stand above it.

    So the line numbers of a traceback are those of the page.
    """
    return [
        "\n" * text.count("\n", 0, block.start(1)) + block[1]
        for block in BLOCK.finditer(text)
    ]


def run_block(code: str, page: str, namespace: dict, figures: int = 0) -> dict:
    """Run one block: `printed`, `text` or `html` of its last line, `pictures`.

    `figures` is the number of those that the page has drawn before.
    """
    body = ast.parse(code, page).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    before, value, printed = images(), None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), page, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), page, "eval"), namespace)
    shown = {"printed": printed.getvalue(), "pictures": saved_figures(figures)}
    known = before | {picture["file"] for picture in shown["pictures"]}
    shown["pictures"] += [
        {"file": name, "alt": pathlib.Path(name).stem.replace("_", " ")}
        for name in sorted(images() - known)
    ]
    # Behind a figure stands the legend or line that the last call has returned.
    if value is not None and not shown["pictures"]:
        as_html = getattr(value, "_repr_html_", None)
        shown |= {"text": repr(value)} if as_html is None else {"html": as_html()}
    return shown


def images() -> set[str]:
    """The images in the working folder."""
    return {path.name for path in pathlib.Path().iterdir() if path.suffix in IMAGES}


def saved_figures(before: int) -> list[dict]:
    """Save the open figures of Matplotlib, and close them."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot

    saved = []
    for number, key in enumerate(pyplot.get_fignums(), before + 1):
        figure = pyplot.figure(key)
        name = f"figure-{number}.png"
        # Two dots of the picture to one of the page, as screens have them now.
        figure.savefig(name, dpi=192)
        width = round(96 * figure.get_figwidth())
        saved += [{"file": name, "alt": alternative_text(figure), "width": width}]
        pyplot.close(figure)
    return saved


def alternative_text(figure) -> str:
    """What a figure shows, for those who do not see it: its name, or its words."""
    if figure.get_label():
        return figure.get_label()
    words = [figure.get_suptitle()]
    for axes in figure.axes:
        words += [axes.get_title(), axes.get_xlabel(), axes.get_ylabel()]
    return "Figure: " + ", ".join(dict.fromkeys(word for word in words if word))


def describe(error: BaseException, page: str) -> str:
    """The page and the line of an error, then its traceback within the page."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == page]
    if isinstance(error, SyntaxError) and error.filename == page:
        lines += [error.lineno]
    while error.__traceback__ and error.__traceback__.tb_frame.f_code.co_filename in (
        __file__,
        ast.__file__,
    ):
        error.__traceback__ = error.__traceback__.tb_next
    where = f"{page}, line {lines[-1]}" if lines else page
    name, trace = type(error).__name__, "".join(traceback.format_exception(error))
    return f"{where}: {name}: {error}\n\n{trace}"


def slowness() -> float:
    """How often longer than 0.1 s of the processor a million terms of a sum take.

    Between cores, and between busy and idle neighbors, lies a factor of two.
    """
    start = time.process_time()
    sum(number * number % 7 for number in range(10**6))
    return (time.process_time() - start) / 0.1


def main(page: str, folder: str):
    text, outputs, slow = pathlib.Path(page).read_text(), [], [slowness()]
    namespace = {"__name__": "__main__"}
    os.chdir(folder)
    try:
        for code in blocks(text):
            figures = sum("width" in p for out in outputs for p in out["pictures"])
            outputs += [run_block(code, page, namespace, figures)]
            slow += [slowness()]
    except BaseException as error:
        sys.exit(describe(error, page))
    seconds = time.process_time() * len(slow) / sum(slow)
    run = {"seconds": seconds, "outputs": outputs}
    pathlib.Path("outputs.json").write_text(json.dumps(run))


if __name__ == "__main__":
    main(*sys.argv[1:])
