"""Forms of dynamics that solvers take apart."""
