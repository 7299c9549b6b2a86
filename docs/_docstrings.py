"""What the API pages make of docstrings: links to public names, shapes, references."""

import ast
import re

import griffe


class Docstrings(griffe.Extension):
    """Names link to their page, shapes keep their *; a class ends with `references`."""

    def on_object(self, *, obj: griffe.Object, **kwargs):
        """Called by griffe for everything it has loaded."""
        del kwargs
        if obj.docstring is not None:
            pages = public(obj.package)
            obj.docstring.value = re.sub(
                r"\[`(\w+)`\]\[\]",
                lambda found: linked(found[1], pages),
                starred(obj.docstring.value),
            )

    def on_function(self, *, func: griffe.Function, **kwargs):
        """Called by griffe for every function: one signature for it, not one a case."""
        del kwargs
        func.overloads = None

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


def starred(text: str) -> str:
    """(axis, *grid) and (*grid) as written, where Markdown would see italics."""
    parts = re.split(r"(```.*?```|`[^`]*`)", text, flags=re.S)
    parts[::2] = [re.sub(r"(?<=[( ])\*(?=[a-z])", r"\\*", part) for part in parts[::2]]
    return "".join(parts)


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
