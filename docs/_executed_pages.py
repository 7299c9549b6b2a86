"""Hook of MkDocs: tutorials with the output of every Python block below it.

Each page runs in a process of its own, two at a time. `DIFFSIM_DOCS_EXECUTE=0` leaves
the outputs out. `mkdocs serve` runs a page again where its code or the library changes.
"""

import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from _run_page import BLOCK, blocks, is_executed
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File


log = logging.getLogger("mkdocs.hooks.executed_pages")

DOCS = pathlib.Path(__file__).parent
# Of a processor of fixed speed (`slowness` of _run_page.py), for a page and for all of
# them; a busy or slow machine changes nothing.
SECONDS, SECONDS_IN_ALL = 60, 480
PATIENCE = 600  # seconds on the clock, for a page that hangs

_runs = {}  # page -> (code, state of the library), what _run returns
_shown = {}  # page -> Markdown below each of its blocks


def on_files(files, *, config):
    """Run the pages, and add their images to the site."""
    _shown.clear()
    if os.environ.get("DIFFSIM_DOCS_EXECUTE") == "0":
        return files
    pages = [f.src_uri for f in files.documentation_pages() if is_executed(f.src_uri)]
    pages = [page for page in pages if BLOCK.search((DOCS / page).read_text())]
    start = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(_run, pages))
    _report([seconds for seconds, _, _ in runs], time.monotonic() - start)
    for page, (_, outputs, images) in zip(pages, runs, strict=True):
        prefix = pathlib.PurePosixPath(page).with_suffix("")
        _shown[page] = [_markdown(output, prefix.name) for output in outputs]
        for name, content in images.items():
            files.append(File.generated(config, f"{prefix}-{name}", content=content))
    return files


def on_page_markdown(markdown, *, page, **_):
    """The page, with what its blocks have shown."""
    below = iter(_shown.get(page.file.src_uri, ()))
    return BLOCK.sub(lambda block: block[0] + next(below, ""), markdown)


def _report(seconds: list[float], elapsed: float):
    log.info(
        f"{len(seconds)} pages took {sum(seconds):.0f} s of the processor, "
        f"{elapsed:.0f} s on the clock"
    )
    if sum(seconds) > SECONDS_IN_ALL:
        raise PluginError(
            f"the pages took {sum(seconds):.0f} s of the processor, at most "
            f"{SECONDS_IN_ALL} s are meant; make grids smaller or runs shorter"
        )


def _run(page: str) -> tuple[float, list[dict], dict[str, bytes]]:
    """Seconds and outputs of the blocks of a page, and its images by name."""
    code = [block.lstrip("\n") for block in blocks((DOCS / page).read_text())]
    library = sorted(
        (str(path), path.stat().st_mtime_ns)
        for path in (DOCS.parent / "diffsim").rglob("*.py")
    )
    known = _runs.get(page)
    if known is None or known[0] != (code, library):
        _runs[page] = (code, library), _run_process(page)
    return _runs[page][1]


def _run_process(page: str) -> tuple[float, list[dict], dict[str, bytes]]:
    command = [sys.executable, DOCS / "_run_page.py", DOCS / page]
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [*command, folder],
                env=os.environ | {"MPLBACKEND": "Agg"},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired:
            raise PluginError(f"docs/{page} hung for {PATIENCE} s") from None
        if done.returncode:
            raise PluginError(done.stderr.strip())
        if done.stderr:
            log.info(f"docs/{page} wrote to the terminal:\n{done.stderr.strip()}")
        run = json.loads((pathlib.Path(folder) / "outputs.json").read_text())
        images = {
            picture["file"]: (pathlib.Path(folder) / picture["file"]).read_bytes()
            for output in run["outputs"]
            for picture in output["pictures"]
        }
    log.info(f"docs/{page}: {run['seconds']:.0f} s of the processor")
    if run["seconds"] > SECONDS:
        raise PluginError(
            f"docs/{page} took {run['seconds']:.0f} s of the processor, at most "
            f"{SECONDS} s are meant; make grids smaller or runs shorter"
        )
    return run["seconds"], run["outputs"], images


def _markdown(output: dict, prefix: str) -> str:
    """What stands below a block: text, a representation in HTML, pictures."""
    parts = []
    text = output["printed"] + output.get("text", "")
    if text.strip():
        parts += [f"~~~~~ {{ .text .output .no-copy }}\n{text.rstrip()}\n~~~~~"]
    if "html" in output:
        parts += [f'<div class="output">\n{output["html"]}\n</div>']
    for picture in output["pictures"]:
        alt = picture["alt"].replace("[", "(").replace("]", ")").replace("\n", " ")
        size = f" width={picture['width']}" if "width" in picture else ""
        parts += [f"![{alt}]({prefix}-{picture['file']}){{ .drawn{size} }}"]
    return "".join(f"\n\n{part}" for part in parts) + "\n"
