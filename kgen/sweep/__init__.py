"""Sweeps: a space of specs, what became of every point, and the results database.

model, load   the sweep file: base spec, axes, constraints, problems, ranking, budget
axes, space, survey    every point of it, the rule that each lost point broke; counts of them
figures       what can be said of a kernel without running it; the static ranking
keys, store, queries   the results file: what its keys are made of, what became of every point
schema, database       its tables; the SQLite file itself
candidate, built, emulated, lanes, record   the phases: compile, emulator, GPU
child, gpus, device    killable processes, and what runs inside those that own a GPU
winners, dispatch      what a sweep hands on, and what its users gain
session       one start of a sweep, from the file to the last result
watch, progress        what it tells meanwhile, and how that looks
"""

from kgen.sweep.load import Sweep, load_sweep
from kgen.sweep.winners import Winner, winners

__all__ = ["Sweep", "Winner", "load_sweep", "winners"]
