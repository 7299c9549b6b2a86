"""The numbers of every task, the same for all contestants."""

import numpy as np


#: A star and two planets, in units where G = 1; three turns of the inner one.
MASSES = np.array([1.0, 1e-3, 1e-3])
POSITIONS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [-1.8, 0.0, 0.0]])
VELOCITIES = np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -0.745, 0.0]])
ORBIT_TIMES = np.linspace(0.0, 20.0, 50)

#: Hares and lynxes, thousands of pelts of the Hudson's Bay Company, 1900 to 1920.
YEARS = np.arange(21.0)
PELTS = np.array(
    [
        [30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1]
        + [40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7],
        [4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4]
        + [8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6],
    ]
).T
#: Births and deaths of prey, births and deaths of predators; what there was in 1900.
RATES = np.array([0.5, 0.025, 0.02, 0.8])
POPULATIONS = np.array([30.0, 4.0])
#: Of the logarithm of a number of pelts.
SIGMA = 0.25

#: A square plate: its cells along a side, its diffusivity, when it is looked at.
PLATE_CELLS, DIFFUSIVITY = 64, 0.01
PLATE_TIMES = np.array([0.1, 0.5])
#: Values of u, of its slope, and of α u + β ∂u/∂n at the walls of the plate.
WARM, INSULATED, COOLED = 1.0, 0.0, (1.0, 0.5, 0.2)

#: Fields in Fourier space: points, length, step and number of steps. Smooth ones, as
#: exponax keeps a mode less than a third of the points.
FLAME_POINTS, FLAME_LENGTH, FLAME_STEP, FLAME_STEPS = 128, 30.0, 0.1, 100
FLOW_POINTS, VISCOSITY, FLOW_STEP, FLOW_STEPS = 64, 0.1, 1e-2, 100
SHOCK_POINTS, SHOCK_VISCOSITY, SHOCK_STEP, SHOCK_STEPS = 256, 0.1, 0.01, 100
CIRCLE = 2 * np.pi
