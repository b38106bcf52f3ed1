"""The tables of a run file (`.htr`, SQLite), current version.

Units end column names (`_ns`, `_bytes`); where the unit varies it is a column of its own. Every
figure carries `provenance`, one of three words. An unknown figure is NULL and its `*_reason` says
why; a known one has an empty reason: a CHECK holds both. An empty text in any other column means
"does not apply". `rows.py` mirrors each table as a frozen dataclass; a test keeps the two in step.

A change here needs a new version and a migration in `migrate.py`.
"""

from __future__ import annotations

# In the file's header: tells our SQLite files from everybody else's.
APPLICATION_ID = int.from_bytes(b"HTrn", "big")
SCHEMA_VERSION = 5

PROVENANCE = ("provenance TEXT NOT NULL "
              "CHECK (provenance IN ('measured', 'estimated', 'simulated'))")

SCHEMA = f"""
-- What was asked, when, and how it ended. One row.
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    command TEXT NOT NULL,
    started_utc TEXT NOT NULL,
    duration_ns INTEGER CHECK (duration_ns >= 0),
    status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'interrupted', 'failed')),
    status_reason TEXT NOT NULL,
    CHECK ((duration_ns IS NULL) = (status = 'running')),
    CHECK ((status_reason <> '') = (status IN ('interrupted', 'failed')))
);

-- The computer the run was started on; nothing in it names its owner. At most one row.
CREATE TABLE machine (
    cpu_model TEXT,
    cpu_model_reason TEXT NOT NULL,
    architecture TEXT NOT NULL,
    cores INTEGER NOT NULL CHECK (cores > 0),
    usable_cores INTEGER NOT NULL CHECK (usable_cores > 0),
    memory_bytes INTEGER CHECK (memory_bytes > 0),
    memory_reason TEXT NOT NULL,
    os TEXT NOT NULL,
    python TEXT NOT NULL,
    CHECK ((cpu_model IS NULL) = (cpu_model_reason <> '')),
    CHECK ((memory_bytes IS NULL) = (memory_reason <> ''))
);

-- What took part in the run, so that a figure can be had again.
CREATE TABLE software (
    name TEXT PRIMARY KEY,
    version TEXT,
    version_reason TEXT NOT NULL,
    CHECK ((version IS NULL) = (version_reason <> ''))
);

-- OpenCL devices used; `facts` is the whole DeviceSpec as a JSON object.
CREATE TABLE device (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    vendor TEXT NOT NULL,
    platform TEXT NOT NULL,
    driver TEXT NOT NULL,
    kind TEXT NOT NULL,
    compute_units INTEGER NOT NULL CHECK (compute_units > 0),
    global_bytes INTEGER NOT NULL CHECK (global_bytes >= 0),
    local_bytes INTEGER NOT NULL CHECK (local_bytes >= 0),
    largest_allocation_bytes INTEGER NOT NULL CHECK (largest_allocation_bytes >= 0),
    self_test TEXT NOT NULL CHECK (self_test IN ('passed', 'failed', 'not run')),
    facts TEXT NOT NULL
);

-- Where work ran; `cores` is a list such as '0-1' when the place is pinned to cores of the host.
CREATE TABLE place (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('device', 'host cpu', 'cloud')),
    device INTEGER REFERENCES device (id),
    cores TEXT,
    cores_reason TEXT NOT NULL,
    CHECK ((device IS NOT NULL) = (kind = 'device')),
    CHECK ((cores IS NULL) = (cores_reason <> ''))
);

-- Two places whose figures are set against each other: do they share the same cores?
CREATE TABLE comparison (
    first TEXT NOT NULL REFERENCES place (name),
    second TEXT NOT NULL REFERENCES place (name),
    same_silicon INTEGER CHECK (same_silicon IN (0, 1)),
    same_silicon_reason TEXT NOT NULL,
    CHECK ((same_silicon IS NULL) <= (same_silicon_reason <> '')),
    PRIMARY KEY (first, second)
);

-- Time stamps of two clocks may be joined only through their offsets to CLOCK_MONOTONIC.
CREATE TABLE clock (
    name TEXT PRIMARY KEY,
    offset_ns INTEGER,
    error_ns INTEGER CHECK (error_ns >= 0),
    offset_reason TEXT NOT NULL,
    {PROVENANCE},
    CHECK ((offset_ns IS NULL OR error_ns IS NULL) = (offset_reason <> ''))
);

-- One pairing of a device's clock with CLOCK_MONOTONIC; between two of them the offset drifts
-- evenly. `kind` is how it was had.
CREATE TABLE sync (
    clock TEXT NOT NULL REFERENCES clock (name),
    device_ns INTEGER NOT NULL,
    monotonic_ns INTEGER NOT NULL,
    error_ns INTEGER NOT NULL CHECK (error_ns >= 0),
    kind TEXT NOT NULL CHECK (kind IN ('timer', 'write', 'events')),
    {PROVENANCE}
);

-- One training or inference step of `subject` (the model and batch), as the host saw it.
CREATE TABLE step (
    id INTEGER PRIMARY KEY,
    place TEXT NOT NULL REFERENCES place (name),
    subject TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 0),
    kind TEXT NOT NULL,
    clock TEXT NOT NULL REFERENCES clock (name),
    start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL,
    {PROVENANCE},
    CHECK (start_ns <= end_ns)
);

-- One kernel launch or host action inside a step; `flops` and `moved_bytes` are the op's rule.
-- QUEUED, SUBMIT and START are not forced into order: drivers disagree, and we store what was seen.
-- `lane` 'host' is the thread that feeds the place; every other lane is work of the place itself.
-- `node` is the same for the same operation of every step. A 'bounded' launch ran somewhere between
-- `start_ns` and `end_ns`. `error_ns` comes on top of the error of the clock.
-- `spared_bytes`: what it and the launch before it would not move, were they one.
CREATE TABLE launch (
    step INTEGER NOT NULL REFERENCES step (id),
    number INTEGER NOT NULL CHECK (number >= 0),
    kernel TEXT NOT NULL,
    op TEXT NOT NULL,
    layer TEXT NOT NULL,
    phase TEXT NOT NULL,
    source_line TEXT NOT NULL,
    clock TEXT NOT NULL REFERENCES clock (name),
    queued_ns INTEGER,
    submit_ns INTEGER,
    start_ns INTEGER,
    end_ns INTEGER,
    times_reason TEXT NOT NULL,
    flops INTEGER CHECK (flops >= 0),
    moved_bytes INTEGER CHECK (moved_bytes >= 0),
    work_reason TEXT NOT NULL,
    {PROVENANCE},
    lane TEXT NOT NULL DEFAULT 'queue' CHECK (lane <> ''),
    node TEXT NOT NULL DEFAULT '',
    quality TEXT NOT NULL DEFAULT 'stamped' CHECK (quality IN ('stamped', 'bounded')),
    error_ns INTEGER NOT NULL DEFAULT 0 CHECK (error_ns >= 0),
    spared_bytes INTEGER CHECK (spared_bytes >= 0),
    spared_reason TEXT NOT NULL DEFAULT 'not worked out'
        CHECK ((spared_bytes IS NULL) = (spared_reason <> '')),
    CHECK ((queued_ns IS NULL OR submit_ns IS NULL OR start_ns IS NULL OR end_ns IS NULL)
           = (times_reason <> '')),
    CHECK ((flops IS NULL OR moved_bytes IS NULL) = (work_reason <> '')),
    CHECK (start_ns <= end_ns),
    PRIMARY KEY (step, number)
);

-- Time of a step in which no lane but 'host' worked, and why.
CREATE TABLE gap (
    step INTEGER NOT NULL REFERENCES step (id),
    number INTEGER NOT NULL CHECK (number >= 0),
    cause TEXT NOT NULL CHECK (cause <> ''),
    clock TEXT NOT NULL REFERENCES clock (name),
    start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL,
    {PROVENANCE},
    CHECK (start_ns <= end_ns),
    PRIMARY KEY (step, number)
);

-- What was read again and again: the sensor's file or chip is `source`, `kind` is what one reading
-- says, `parent` the quantity of the rail that contains this one, `step` the least difference
-- between two values (0: unknown), `wraps_at` where a counter falls to 0 (NULL: it does not).
CREATE TABLE signal (
    meter TEXT NOT NULL,
    quantity TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('instant', 'window', 'lowpass', 'counter', 'gauge')),
    part TEXT NOT NULL,
    parent TEXT NOT NULL,
    every_ns INTEGER NOT NULL CHECK (every_ns >= 0),
    span_ns INTEGER NOT NULL CHECK (span_ns >= 0),
    step REAL NOT NULL CHECK (step >= 0),
    wraps_at REAL,
    basis TEXT NOT NULL CHECK (basis IN ('captured', 'documented')),
    source TEXT NOT NULL,
    PRIMARY KEY (meter, quantity)
);

-- One reading of one sensor, within `error_ns` of `time_ns`; a quantity's name ends in its unit,
-- such as 'gpu_power_w'.
CREATE TABLE sample (
    time_ns INTEGER NOT NULL,
    clock TEXT NOT NULL REFERENCES clock (name),
    meter TEXT NOT NULL,
    quantity TEXT NOT NULL,
    value REAL,
    value_reason TEXT NOT NULL,
    {PROVENANCE},
    error_ns INTEGER NOT NULL DEFAULT 0 CHECK (error_ns >= 0),
    CHECK ((value IS NULL) = (value_reason <> ''))
);

-- Joules of all steps together that one signal gives to a part of `subject`: the parts of a level,
-- with idle and unattributed, add up to the rail. `how` names the estimator or the sheet.
CREATE TABLE energy (
    place TEXT NOT NULL REFERENCES place (name),
    subject TEXT NOT NULL,
    meter TEXT NOT NULL,
    quantity TEXT NOT NULL,
    level TEXT NOT NULL CHECK (level IN (
        'rail', 'idle', 'unattributed', 'step', 'phase', 'layer', 'op')),
    name TEXT NOT NULL,
    instances INTEGER NOT NULL CHECK (instances >= 0),
    seconds REAL NOT NULL CHECK (seconds >= 0),
    readings INTEGER NOT NULL CHECK (readings >= 0),
    total_j REAL,
    total_reason TEXT NOT NULL,
    low_j REAL,
    high_j REAL,
    dynamic_j REAL,
    dynamic_reason TEXT NOT NULL,
    how TEXT NOT NULL CHECK (how <> ''),
    {PROVENANCE},
    CHECK ((low_j IS NULL) = (high_j IS NULL) AND (low_j IS NULL OR low_j <= high_j)),
    CHECK ((total_j IS NULL) = (total_reason <> '')),
    CHECK ((dynamic_j IS NULL) = (dynamic_reason <> '')),
    PRIMARY KEY (place, subject, meter, quantity, level, name)
);

-- What was not sensed, and why; `time_ns` is when it went missing (NULL: it never was there).
CREATE TABLE missing (
    source TEXT NOT NULL,
    why TEXT NOT NULL CHECK (why <> ''),
    fix TEXT NOT NULL,
    time_ns INTEGER
);

-- Bytes of one role (parameters, gradients, ...) at one moment ('peak') of `subject`; the moment
-- 'launch' is while the step's launch of that number runs.
CREATE TABLE memory (
    place TEXT NOT NULL REFERENCES place (name),
    subject TEXT NOT NULL,
    moment TEXT NOT NULL,
    role TEXT NOT NULL,
    bytes INTEGER CHECK (bytes >= 0),
    bytes_reason TEXT NOT NULL,
    {PROVENANCE},
    launch INTEGER CHECK (launch >= 0 AND moment = 'launch' OR launch IS NULL),
    CHECK ((bytes IS NULL) = (bytes_reason <> ''))
);

-- A figure a study produced. With repeats, `value` is the median and `spread` the interquartile
-- range; `low` and `high` bound it in the sense `bounds` says ('95 % interval', 'min to max').
CREATE TABLE result (
    study TEXT NOT NULL,
    name TEXT NOT NULL,
    subject TEXT NOT NULL,
    place TEXT REFERENCES place (name),
    x_name TEXT NOT NULL,
    x_value REAL,
    x_unit TEXT NOT NULL,
    value REAL,
    value_reason TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT NOT NULL CHECK (better IN ('higher', 'lower', 'neither')),
    repeats INTEGER NOT NULL CHECK (repeats >= 0),
    spread REAL CHECK (spread >= 0),
    {PROVENANCE},
    low REAL,
    high REAL CHECK ((low IS NULL) = (high IS NULL) AND (low IS NULL OR low <= high)),
    bounds TEXT NOT NULL DEFAULT '' CHECK ((bounds = '') = (low IS NULL)),
    CHECK ((x_name = '') = (x_value IS NULL)),
    CHECK ((value IS NULL) = (value_reason <> '')),
    CHECK (value IS NULL OR repeats < 2 OR spread IS NOT NULL)
);

-- A figure somebody else printed, to be shown beside ours and never mixed with it.
CREATE TABLE published (
    study TEXT NOT NULL,
    name TEXT NOT NULL,
    subject TEXT NOT NULL,
    x_name TEXT NOT NULL,
    x_value REAL,
    x_unit TEXT NOT NULL,
    value REAL NOT NULL,
    unit TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source <> ''),
    CHECK ((x_name = '') = (x_value IS NULL))
);

-- A study's question and its answer in one sentence; `holds` is NULL when it cannot be judged.
CREATE TABLE verdict (
    study TEXT NOT NULL,
    question TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (answer <> ''),
    holds INTEGER CHECK (holds IN (0, 1)),
    holds_reason TEXT NOT NULL,
    CHECK ((holds IS NULL) <= (holds_reason <> ''))
);
"""
