"""The tables of a results file. A file is SQLite, in WAL mode while a sweep writes it.

Every time is UTC, ISO 8601.
Raise VERSION when a table changes its meaning; `Store.open` refuses files newer than this one.
"""

from __future__ import annotations

APPLICATION_ID = 0x6B67656E  # "kgen"; says that a SQLite file is one of kgen's results
VERSION = 1

TABLES = """
-- One start of a sweep: what was asked for, and how it ended ('' while it runs).
CREATE TABLE start (
    id INTEGER PRIMARY KEY,
    sweep TEXT NOT NULL,            -- the sweep's name
    digest TEXT NOT NULL,           -- of what the sweep file asks for
    file TEXT NOT NULL,             -- the sweep file's text
    settings TEXT NOT NULL,         -- the same, read: JSON with axes, rank, timing and problems
    kgen TEXT NOT NULL,
    began TEXT NOT NULL,
    ended TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT ''  -- done, interrupted, out of time, failed: why
);

-- A kernel's code. spec is YAML that `kgen render` takes and that gives this very source.
CREATE TABLE kernel (
    source_digest TEXT PRIMARY KEY, -- of the rendered code, header comment left out
    name TEXT NOT NULL,
    target TEXT NOT NULL,
    spec TEXT NOT NULL,
    spec_digest TEXT NOT NULL,
    figures TEXT NOT NULL           -- JSON, static: see kgen.sweep.figures.FIGURES
);

-- A combination of axis values of the latest start of its sweep. What became of its kernel is in
-- build and run.
CREATE TABLE point (
    sweep TEXT NOT NULL,
    number INTEGER NOT NULL,        -- place in the space
    axes TEXT NOT NULL,             -- JSON: field path to value
    kernel TEXT REFERENCES kernel,  -- NULL where the point does not fit, or was not reached
    rules TEXT NOT NULL,            -- JSON list: the rules that it breaks, numbers as N
    reason TEXT NOT NULL,           -- the same with its numbers
    PRIMARY KEY (sweep, number)
);

-- A problem of the latest start of its sweep, in elements.
CREATE TABLE problem (
    sweep TEXT NOT NULL, name TEXT NOT NULL, m INTEGER, n INTEGER, k INTEGER,
    PRIMARY KEY (sweep, m, n, k)
);

-- One compilation: built, compile_failed or ptxas_rejected.
CREATE TABLE build (
    key TEXT PRIMARY KEY,
    kernel TEXT NOT NULL REFERENCES kernel,
    toolchain TEXT NOT NULL,        -- compiler, release, digest of the lock file
    status TEXT NOT NULL,
    reason TEXT NOT NULL,
    registers INTEGER,              -- per thread
    seconds REAL,
    artifact TEXT NOT NULL,         -- key in kgen's build cache
    at TEXT NOT NULL
);

-- A GPU that something was timed on; id is a digest of the facts.
CREATE TABLE device (id TEXT PRIMARY KEY, facts TEXT NOT NULL);

-- One piece of work on one kernel. stage: emulate, screen, verify (all derived shapes) or final.
CREATE TABLE run (
    key TEXT PRIMARY KEY,
    kernel TEXT NOT NULL REFERENCES kernel,
    stage TEXT NOT NULL,
    m INTEGER, n INTEGER, k INTEGER,  -- elements; NULL where a stage has shapes of its own
    device TEXT REFERENCES device,    -- NULL for the emulator
    toolchain TEXT NOT NULL,
    status TEXT NOT NULL,           -- emulated, emulator_finding, built (the emulator cannot say),
                                    -- screened, verified, timed, wrong, hung, crashed;
                                    -- infeasible: unfit for this problem
    reason TEXT NOT NULL,
    us REAL,                        -- median, per launch
    reference_us REAL,              -- torch at that time: screens interpolate, finals interleave
    ratio REAL,                     -- speed over the reference
    low REAL, high REAL,            -- 95 % bootstrap interval; finals only
    sm_mhz REAL, power_w REAL,      -- median right after the windows
    detail TEXT NOT NULL,           -- JSON: windows, clocks, notes (throttling among them)
    seconds REAL,                   -- that the work took
    at TEXT NOT NULL
);

-- What every key of build and run is the digest of.
CREATE TABLE key_part (key TEXT NOT NULL, part TEXT NOT NULL, value TEXT NOT NULL,
                       PRIMARY KEY (key, part));

CREATE INDEX run_kernel ON run (kernel, stage);
CREATE INDEX build_kernel ON build (kernel);
"""
