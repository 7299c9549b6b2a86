"""Tests run in float64 and check every annotation of diffsim while it runs."""

import jax
from jaxtyping import install_import_hook


# beartype refuses `Self` on methods that it meets without their class, as the hook
# presents them; there it stands for anything, everything else is checked.
_CHECKER = (
    "beartype.beartype(conf=beartype.BeartypeConf(hint_overrides="
    "beartype.FrozenDict({__import__('typing').Self: object})))"
)

# Before anything imports diffsim: modules imported earlier would go unchecked.
install_import_hook("diffsim", _CHECKER)

jax.config.update("jax_enable_x64", True)
