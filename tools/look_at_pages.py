"""Open every page of a built site in Chromium, at the widths of a desk and a telephone.

    mkdocs build --site-dir site
    python tools/look_at_pages.py site pictures --browser /usr/bin/chromium

reports pages that scroll sideways, formulas that are not typeset, broken images, what
went wrong in the console and what a page asked of another host, and saves a picture of
each page. For maintainers: it needs `pip install playwright` and a Chromium, and is no
part of .ci/run.
"""

import argparse
import functools
import http.server
import pathlib
import shutil
import sys
import threading

from playwright.sync_api import sync_playwright


WIDTHS = (1300, 400)
FAULTS = """() => {
  const count = (selector, faulty) =>
    [...document.querySelectorAll(selector)].filter(faulty).length;
  const wide = document.documentElement.scrollWidth;
  return {
    "pixels too wide": Math.max(0, wide - window.innerWidth),
    "formulas not typeset": count(".arithmatex", e => !e.querySelector(".katex-html")),
    "formulas in red": count(".katex-error, .katex [style*='#cc0000']", () => true),
    "broken images": count("img", e => !e.complete || e.naturalWidth === 0),
    "images without a text": count("article img", e => !e.alt),
  };
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that says nothing."""

    def log_message(self, format, *args):
        pass


def look(page, address: str, width: int) -> list[str]:
    """Open one page; what is wrong with it."""
    found = []
    page.on("console", lambda m: found.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    host = address.split("/")[2]
    page.on(
        "request",
        lambda r: (
            None
            if r.url.startswith(("data:", "blob:", f"http://{host}/"))
            else found.append(f"asks for {r.url}")
        ),
    )
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(address, wait_until="load")
    page.wait_for_function("document.fonts.status === 'loaded'")
    # Those below the window would wait to be scrolled to.
    page.evaluate("document.querySelectorAll('img').forEach(i => i.loading = 'eager')")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(500)  # what fades in
    faults = page.evaluate(FAULTS)
    return found + [f"{number} {what}" for what, number in faults.items() if number]


def main(
    site: pathlib.Path, pictures: pathlib.Path, only: str, browser: str, scheme: str
) -> int:
    handler = functools.partial(Quiet, directory=site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages = sorted(path.parent.relative_to(site) for path in site.rglob("index.html"))
    pages = [name for name in pages if only in name.as_posix()]
    pictures.mkdir(parents=True, exist_ok=True)
    wrong = 0
    with sync_playwright() as play:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        chromium = play.chromium.launch(executable_path=browser, args=arguments)
        for name in pages:
            address = f"http://127.0.0.1:{server.server_port}/{name.as_posix()}/"
            for width in WIDTHS:
                page = chromium.new_page(color_scheme=scheme)
                faults = look(page, address.replace("/./", "/"), width)
                stem = "-".join(name.parts) or "index"
                picture = pictures / f"{stem}-{width}.png"
                page.screenshot(path=picture, full_page=True, animations="disabled")
                page.close()
                wrong += bool(faults)
                if faults:
                    print(f"{name} at {width} pixels: {'; '.join(faults)}")
        chromium.close()
    print(f"{len(pages)} pages at {len(WIDTHS)} widths, {wrong} with faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("site", type=pathlib.Path, help="folder of a built site")
    parser.add_argument("pictures", type=pathlib.Path, help="folder for the pictures")
    found = shutil.which("chromium") or shutil.which("google-chrome")
    parser.add_argument("--browser", default=found, help="path of a Chromium")
    parser.add_argument("--only", default="", help="part of the names of the pages")
    parser.add_argument("--scheme", choices=["light", "dark"], default="light")
    sys.exit(main(**vars(parser.parse_args())))
