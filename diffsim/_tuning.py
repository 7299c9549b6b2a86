"""Numbers that were measured on a machine, with what each was measured by.

They decide how fast a run is and how much memory it takes, and what comes out but to
rounding. `benchmarks/tuning.py` measures them again.
"""

# Sweeps on a CPU

#: Arrays of a tile that together fit the 32 kB of a level-1 cache stay there. Leapfrog
#: of 8 bodies (1.5 kB): tiles of 16 take 0.096 µs per step and run, of 32 0.36.
TILE_BYTES = 24 * 1024
#: Loops over 64 numbers LLVM makes of whole vectors, where it writes out those over 32;
#: larger tiles win nothing more. Of 5 bodies (120 B): tiles of 16, 32, 64, 128 take 61,
#: 33, 24, 27 ns by leapfrog, and by Wisdom and Holman's map 248, 191, 173, 232.
LARGEST_TILE = 64
#: Bytes of the arrays of one run above which no tile gains.
LARGEST_TILED_ARRAY = 8 * 1024
#: Seconds that a layout is tried for, if the runs that remain take so many times its
#: compilation: three that are no better then cost a sixth.
TRIAL_SECONDS, WORTH_A_TRIAL = 0.1, 20.0
#: A chunk tells the speed of its runs if it takes so many times as long as an empty
#: one; else the next has so many times as many tiles.
TELLING, MORE_TILES = 3.0, 8
#: Seconds to compile a layout, at least.
LEAST_COMPILE_SECONDS = 0.5
#: Seconds that runs take, at least, where a chunk is over sooner than an empty one.
LEAST_RUN_SECONDS = 1e-5
#: Seconds of a chunk once the speed is known, so that progress is seen.
CHUNK_SECONDS = 3.0

# Sweeps on a GPU

#: Tiles of runs whose steps differ, and the fewest runs in one.
BUCKETS, FEWEST_LANES = 8, 1024
#: Numbers that a step by elements may work out: longer programs take long to compile.
MOST_ELEMENTS = 4096

# Memory of sweeps

#: Runs that a chunk of many tiles has place for. All of its outputs are made, fetched
#: and copied, whatever is run: of 10^6 that is half a second, in each chunk.
MOST_CHUNK_RUNS = 2**16
#: Chunks that a sweep is divided into for stores and parts, about, and the most bytes
#: of one: a job that is killed loses one, and to write one takes some milliseconds.
STORED_CHUNKS, MOST_STORED_BYTES = 128, 2**26
#: Chunks hold whole tiles that are not larger; of wider ones there are so many chunks.
WHOLE_TILE, WIDE_CHUNKS = 64, 16
#: Bytes of a chunk that is stored, in all copies: 10^5 runs of 20 kB take 0.6 GB in all
#: with it, 1.9 GB with 1 GiB, and no longer.
STORED_MEMORY = 2**27

# Runs of a sweep

#: Runs that reverse mode takes for a number; forward mode takes one for a parameter, or
#: less. Leapfrog of 5 bodies takes 2.5, adaptive steps 4.
RUNS_OF_REVERSE_MODE = 4
#: The nearest runs that the cost of another is guessed from, of so many at most.
NEAREST_RUNS, MOST_KNOWN_RUNS = 2, 4096

# Bodies

#: Bodies up to which all pairs are formed at once. Measured on one core, million pairs
#: a second at once / in blocks: 64: 128 / 140, 128: 127 / 360.
BODIES_AT_ONCE = 64
#: Numbers of bodies of which each pair is better worked out once, of systems that lie
#: side by side. Measured on one core, leapfrog in the best tile, ns a step and system,
#: that / all pairs at once: 3: 10 / 14, 5: 23 / 42, 10: 164 / 423, but 8, which fill
#: vectors: 145 / 95. One system after a Kepler step loses half: XLA makes its places
#: again for every pair.
BODIES_BY_PAIRS = frozenset({2, 3, 4, 5, 6, 7, 9, 10, 11})
#: Tangents times pairs from which on the matrix is faster. Measured on one core, sums
#: and matrix in µs: 15 tangents of 5 bodies (375) 2.0 and 1.6, 3 of 20 (1200) 4.5 and
#: 7.0, 5 of 10 (500) 1.8 and 3.9, 15 of 10 (1500) 14 and 3.5, 5 of 20 (2000) 13 and 6.
TANGENTS_OF_PAIRS_BY_MATRIX = 1500
#: Sources written out per turn of the loop. 8 give 3 % more forward, and 20 % less in
#: the gradient.
SOURCES_WRITTEN_OUT = 4
#: Targets that are added to a multiple of 512, whose arrays meet the same cache lines:
#: gradient / forward at N = 1024 is 4.4, and 3.1 at 1016 or 1040.
EXTRA_TARGETS = 16
#: Numbers in a matrix up to which a product is written out as a sum: a call of a
#: library takes as long in a loop of small kernels.
MATRIX_WRITTEN_OUT = 1024

# Substeps of symplectic solvers

#: Stages that are written out. A loop of more takes as long to run, and of KahanLi8 and
#: five bodies a sixteenth to compile: a gradient 0.44 s for 7.0, a Jacobian 0.24 s for
#: 5.7.
SUBSTEPS_WRITTEN_OUT = 4

# Multigrid

#: Cells of a grid that is coarse enough: more levels only take time to compile.
COARSEST_CELLS = 64
#: Cells of the coarsest grid, whose matrix is made and inverted.
MOST_DENSE_CELLS = 1024

# Implicit layers

#: Rows up to which matrices are inverted in closed form. Above this LAPACK is faster;
#: below it a call for each matrix costs ten times as much.
ROWS_IN_CLOSED_FORM = 3
#: Unknowns up to which new factors cost no more than another value of f.
UNKNOWNS_FACTORED_AGAIN = 3
#: Unknowns up to which a whole Hessian is cheap beside the search.
UNKNOWNS_OF_WHOLE_HESSIAN = 32

# Loops of steps

#: Stages that are written out. Of Dopri8's a loop takes 2.2 µs a step of five bodies
#: for 1.8, as long in the gradient and 0.8 of it in a Jacobian, and is compiled in a
#: fifth to a tenth of the time: 0.16 s for 0.57, 0.33 for 2.0, 0.21 for 1.4.
STAGES_WRITTEN_OUT = 4
#: Numbers in all tangents of all rates from which on a product of matrices is faster.
#: Measured on one core, in µs, 13 rates of 60 numbers: 6 tangents 2.1 and 0.5, 70 of
#: them 37 and 6; of 30 numbers: 6 tangents 0.8 and 0.4. XLA's sums over an axis in the
#: middle take a number at a time.
TANGENTS_OF_RATES_BY_MATRIX = 1500
#: Numbers of a state up to which it is packed. Beyond it the copies cost more than
#: what a step spends between its operations.
PACKED_NUMBERS = 4096
#: Steps written out per turn of the loop for one-evaluation solvers, on states of so
#: many numbers: 5-body leapfrog gains 10 % forward and 15 % in the gradient, and 6 gain
#: no more.
STEPS_WRITTEN_OUT, NUMBERS_WRITTEN_OUT = 5, 256
#: XLA's runtime on CPUs passes kernels to its threads, a tenth of a microsecond each,
#: unless those of a loop body are few or touch no buffer above this many bytes. Blocks
#: keep what a derivative stores of small states below it (gradient of a 5-body leapfrog
#: run: 0.47 against 0.64 µs a step); less than four steps a block gain nothing.
BLOCK_BYTES, LEAST_BLOCK = 512, 4
#: States that reverse mode keeps of a run whose number of steps nobody has bounded: as
#: many as take each of 4096 steps twice, and each of 125 000 three times.
CHECKPOINTS = 90
#: Bytes of all states that a run keeps, for derivatives or for events, where nobody has
#: said how many steps there are; with events it takes so many steps at least.
KEPT_BYTES, LEAST_STEPS = 2**28, 4096
#: Rows of a log of steps that conditions of events are evaluated for together.
ROWS_TOGETHER = 512
#: Cost of writing an output, and of masking a step, in units of a plain step; leapfrog
#: of 5 bodies, 12 500 steps: a row a step costs 1.2, a masked tail 1.4 times the run.
COST_OF_OUTPUT, COST_OF_MASK = 0.5, 1.4
