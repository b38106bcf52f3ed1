-- Version 1 as it was written to disk; frozen: migrations are tested against it.

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

CREATE TABLE software (
    name TEXT PRIMARY KEY,
    version TEXT,
    version_reason TEXT NOT NULL,
    CHECK ((version IS NULL) = (version_reason <> ''))
);

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

CREATE TABLE place (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('device', 'host cpu', 'cloud')),
    device INTEGER REFERENCES device (id),
    cores TEXT,
    cores_reason TEXT NOT NULL,
    CHECK ((device IS NOT NULL) = (kind = 'device')),
    CHECK ((cores IS NULL) = (cores_reason <> ''))
);

CREATE TABLE comparison (
    first TEXT NOT NULL REFERENCES place (name),
    second TEXT NOT NULL REFERENCES place (name),
    same_silicon INTEGER CHECK (same_silicon IN (0, 1)),
    same_silicon_reason TEXT NOT NULL,
    CHECK ((same_silicon IS NULL) <= (same_silicon_reason <> '')),
    PRIMARY KEY (first, second)
);

CREATE TABLE clock (
    name TEXT PRIMARY KEY,
    offset_ns INTEGER,
    error_ns INTEGER CHECK (error_ns >= 0),
    offset_reason TEXT NOT NULL,
    provenance TEXT NOT NULL CHECK (provenance IN ('measured', 'estimated', 'simulated')),
    CHECK ((offset_ns IS NULL OR error_ns IS NULL) = (offset_reason <> ''))
);

CREATE TABLE step (
    id INTEGER PRIMARY KEY,
    place TEXT NOT NULL REFERENCES place (name),
    subject TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 0),
    kind TEXT NOT NULL,
    clock TEXT NOT NULL REFERENCES clock (name),
    start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL,
    provenance TEXT NOT NULL CHECK (provenance IN ('measured', 'estimated', 'simulated')),
    CHECK (start_ns <= end_ns)
);

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
    provenance TEXT NOT NULL CHECK (provenance IN ('measured', 'estimated', 'simulated')),
    CHECK ((queued_ns IS NULL OR submit_ns IS NULL OR start_ns IS NULL OR end_ns IS NULL)
           = (times_reason <> '')),
    CHECK ((flops IS NULL OR moved_bytes IS NULL) = (work_reason <> '')),
    CHECK (start_ns <= end_ns),
    PRIMARY KEY (step, number)
);

CREATE TABLE sample (
    time_ns INTEGER NOT NULL,
    clock TEXT NOT NULL REFERENCES clock (name),
    meter TEXT NOT NULL,
    quantity TEXT NOT NULL,
    value REAL,
    value_reason TEXT NOT NULL,
    provenance TEXT NOT NULL CHECK (provenance IN ('measured', 'estimated', 'simulated')),
    CHECK ((value IS NULL) = (value_reason <> ''))
);

CREATE TABLE memory (
    place TEXT NOT NULL REFERENCES place (name),
    subject TEXT NOT NULL,
    moment TEXT NOT NULL,
    role TEXT NOT NULL,
    bytes INTEGER CHECK (bytes >= 0),
    bytes_reason TEXT NOT NULL,
    provenance TEXT NOT NULL CHECK (provenance IN ('measured', 'estimated', 'simulated')),
    CHECK ((bytes IS NULL) = (bytes_reason <> ''))
);

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
    provenance TEXT NOT NULL CHECK (provenance IN ('measured', 'estimated', 'simulated')),
    CHECK ((x_name = '') = (x_value IS NULL)),
    CHECK ((value IS NULL) = (value_reason <> '')),
    CHECK (value IS NULL OR repeats < 2 OR spread IS NOT NULL)
);

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

CREATE TABLE verdict (
    study TEXT NOT NULL,
    question TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (answer <> ''),
    holds INTEGER CHECK (holds IN (0, 1)),
    holds_reason TEXT NOT NULL,
    CHECK ((holds IS NULL) <= (holds_reason <> ''))
);
