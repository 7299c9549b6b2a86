"""Hook of MkDocs: no page of the built site loads anything from elsewhere."""

import logging
import pathlib
import re


log = logging.getLogger("mkdocs.hooks.self_contained")

# Links to click on are free, as are those that only say where a page is.
TAG = re.compile(r"<(?:script|link|img|iframe|source|video|audio|embed|object)\b[^>]*>")
FROM_ELSEWHERE = re.compile(r"""(?:src|srcset|href|data)=["']?(?:https?:)?//""")
SAYS_WHERE = re.compile(r"""rel=["']?(?:canonical|alternate|prev|next|edit)\b""")
IN_STYLES = re.compile(r"""(?:url\(|@import )["']?(?:https?:)?//""")


def loads(text: str, suffix: str) -> list[str]:
    """What a page or a style sheet loads from another host."""
    found = [match[0] for match in IN_STYLES.finditer(text)]
    if suffix == ".html":
        tags = [tag for tag in TAG.findall(text) if FROM_ELSEWHERE.search(tag)]
        found += [tag for tag in tags if not SAYS_WHERE.search(tag)]
    return found


def on_post_build(*, config):
    """Warn of a site that needs a network, which a strict build refuses."""
    site = pathlib.Path(config.site_dir)
    for path in sorted(site.rglob("*")):
        if path.suffix not in {".html", ".css"}:
            continue
        if found := loads(path.read_text(), path.suffix):
            log.warning(
                f"{path.relative_to(site)} loads {found[0]!r} from elsewhere; put the "
                "file under docs/assets"
            )
