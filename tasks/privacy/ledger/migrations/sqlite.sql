-- The tables of a new SQLite ledger, as the migrations leave them: alembic takes longer to import than a small study.
-- tests/privacy/test_ledger_writers.py compares the two, and writes this file again if it is run as a program.

CREATE TABLE ledger_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT ledger_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE entries (
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    dataset TEXT NOT NULL,
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    written_at TEXT NOT NULL,
    PRIMARY KEY (seq),
    CONSTRAINT entries_kind CHECK (kind IN ('genesis', 'grant', 'reserve', 'release', 'void', 'refuse', 'approve', 'reject', 'round', 'admit', 'restore')),
    CONSTRAINT entries_one_genesis CHECK ((kind = 'genesis') = (seq = 1)),
    UNIQUE (previous_hash),
    UNIQUE (hash)
);

CREATE UNIQUE INDEX entries_one_reserve ON entries (run_id) WHERE kind = 'reserve';

CREATE UNIQUE INDEX entries_one_void ON entries (run_id) WHERE kind = 'void';

CREATE UNIQUE INDEX entries_one_release ON entries (run_id, name) WHERE kind = 'release';

CREATE UNIQUE INDEX entries_one_review ON entries (run_id) WHERE kind IN ('approve', 'reject');

CREATE INDEX entries_by_dataset ON entries (dataset, kind);

CREATE INDEX entries_by_run ON entries (run_id);

CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries
       BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only'); END;

CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries
       BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only'); END;

CREATE TRIGGER entries_append BEFORE INSERT ON entries
       WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM entries)
         OR EXISTS (SELECT 1 FROM entries WHERE hash = NEW.hash OR previous_hash = NEW.previous_hash)
         OR EXISTS (SELECT 1 FROM entries WHERE run_id = NEW.run_id AND kind = NEW.kind
                    AND (kind IN ('reserve', 'void') OR (kind = 'release' AND name = NEW.name)))
         OR (NEW.kind IN ('approve', 'reject')
             AND EXISTS (SELECT 1 FROM entries WHERE run_id = NEW.run_id AND kind IN ('approve', 'reject')))
       BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only'); END;
