"""What the API pages add to docstrings: links to public names, and references."""

import ast
import re

import griffe


class Docstrings(griffe.Extension):
    """Public names link to their page; a class ends with its `references`."""

    def on_object(self, *, obj: griffe.Object, **kwargs):
        """Called by griffe for everything it has loaded."""
        del kwargs
        if obj.docstring is not None:
            pages = public(obj.package)
            obj.docstring.value = re.sub(
                r"\[`(\w+)`\]\[\]",
                lambda found: linked(found[1], pages),
                obj.docstring.value,
            )

    def on_class(self, *, cls: griffe.Class, **kwargs):
        """Called by griffe for every class."""
        del kwargs
        attribute = cls.members.get("references")
        if cls.docstring is None or not isinstance(attribute, griffe.Attribute):
            return
        value = str(attribute.value)
        if value in cls.module.members:
            value = str(cls.module[value].value)
        links = ", ".join(f"<{address(key)}>" for key in ast.literal_eval(value))
        if links:
            cls.docstring.value += f"\n\n**References:** {links}"


def public(package: griffe.Module) -> dict[str, str]:
    """Where every public name is: `diffsim.<package>.<Name>`."""
    return {
        str(name): f"{module.path}.{name}"
        for module in package.modules.values()
        for name in module.exports or []
    }


def linked(name: str, pages: dict[str, str]) -> str:
    """`name` as a link to its page, as plain code where it has none."""
    return f"[`{name}`][{pages[name]}]" if name in pages else f"`{name}`"


def address(key: str) -> str:
    """The address of a DOI or an arXiv number."""
    if key.startswith("arXiv:"):
        return "https://arxiv.org/abs/" + key.removeprefix("arXiv:")
    return "https://doi.org/" + key
