"""Everything that is measured, in the order of the tables."""

from . import (
    cavity,
    cylinder,
    direct_sum_4096,
    fields,
    finite_differences,
    first_results,
    gpu_direct_sum,
    gpu_fields,
    gpu_sweep,
    gradient_1024,
    implicit_layers,
    kepler_equation,
    leapfrog_5_bodies,
    spectral,
    stiff_diffusion,
    sweep_64x5,
    sweep_layouts,
    weigh_the_planets,
)


CASES = (
    leapfrog_5_bodies.CASE,
    finite_differences.CASE,
    direct_sum_4096.CASE,
    gradient_1024.CASE,
    sweep_64x5.CASE,
    sweep_layouts.CASE,
    weigh_the_planets.CASE,
    implicit_layers.CASE,
    kepler_equation.CASE,
    stiff_diffusion.CASE,
    spectral.CASE,
    fields.CASE,
    cavity.CASE,
    cylinder.CASE,
    first_results.CASE,
    gpu_direct_sum.CASE,
    gpu_fields.CASE,
    gpu_sweep.CASE,
)
