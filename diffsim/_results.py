"""Every way a run can fail, one sentence each that says what to try."""

import diffrax


class RESULTS(diffrax.RESULTS):  # pyright: ignore[reportGeneralTypeIssues]
    """Outcome of a run; `RESULTS[item]` is the sentence, `RESULTS.successful` is empty.

    All of `diffrax.RESULTS` (hence `optimistix.RESULTS` and `lineax.RESULTS`) and:
    """

    successful = ""
    non_finite = (
        "The state became infinite or not a number. Try a shorter step, a softening "
        "length, or parameter values nearer the physical ones."
    )
    times_beyond_max_steps = (
        "A requested time lies more than `max_steps` steps from `t0`. Times or `t0` "
        "are traced, so the number of steps cannot follow them: raise "
        "`Method(max_steps=...)`, or pass concrete times and a Python float `t0`."
    )
    prediction_not_finite = (
        "The prediction is not finite. If `predict` runs a simulation, run "
        "`simulate` at these parameter values on its own: it raises the reason."
    )
    no_progress = (
        "No step lowered the objective. The fit may be at its optimum to rounding; "
        "otherwise try another start or `Free(scale=...)` for badly scaled parameters."
    )
    no_root = (
        "The solver stopped where the residual does not vanish. Try another guess, a "
        "globally convergent solver such as `optimistix.Dogleg`, or tighter tolerances."
    )
