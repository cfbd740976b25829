-- A log as sage wrote it in format 3: `sqlite3 log.db .dump`, with the two numbers that a dump leaves out.
PRAGMA application_id = 1396787013;
PRAGMA user_version = 3;
BEGIN TRANSACTION;
CREATE TABLE decisions (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time REAL NOT NULL, data_source TEXT NOT NULL,
  tenant TEXT NOT NULL, session TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "decisions" VALUES(1,'whole',1000.0,'synthetic','default','s','{"id":"whole","time":1000.0,"data_source":"synthetic","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"features_version":1,"task_id":"t1","category":"","tenant":"default","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":0.75,"schema":1}');
INSERT INTO "decisions" VALUES(2,'open',1000.0,'synthetic','default','s','{"id":"open","time":1000.0,"data_source":"synthetic","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"features_version":1,"task_id":"t2","category":"","tenant":"default","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"schema":1}');
INSERT INTO "decisions" VALUES(3,'tried',1000.0,'synthetic','default','','{"id":"tried","time":1000.0,"data_source":"synthetic","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"features_version":1,"task_id":"t3","category":"","tenant":"default","session":"","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"cascade":{"cascade_id":"c","number":0,"attempts":[]},"schema":1}');
CREATE TABLE erased (
  kind TEXT NOT NULL, seq INTEGER NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (kind, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
  seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE TABLE outcomes (
  seq INTEGER PRIMARY KEY, decision_id TEXT NOT NULL, status TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "outcomes" VALUES(1,'whole','joined','{"decision_id":"whole","time":1010.0,"quality":null,"cost_usd":0.25,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(2,'whole','joined','{"decision_id":"whole","time":1010.0,"quality":1.0,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"schema":1}');
CREATE TABLE spending (
  tenant TEXT NOT NULL, session TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;
INSERT INTO "spending" VALUES('default','s',0.25);
CREATE TABLE steps (
  cascade_id TEXT NOT NULL, number INTEGER NOT NULL, decision_id TEXT NOT NULL, PRIMARY KEY (cascade_id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "steps" VALUES('c',0,'tried');
CREATE INDEX outcomes_by_decision ON outcomes (decision_id);
CREATE TRIGGER decisions_once BEFORE INSERT ON decisions
  WHEN EXISTS (SELECT 1 FROM decisions WHERE id = NEW.id OR seq = NEW.seq)
  BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER outcomes_once BEFORE INSERT ON outcomes
  WHEN EXISTS (SELECT 1 FROM outcomes WHERE seq = NEW.seq)
  BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER decisions_no_update BEFORE update ON decisions BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER decisions_no_delete BEFORE delete ON decisions BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER outcomes_no_update BEFORE update ON outcomes BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER outcomes_no_delete BEFORE delete ON outcomes BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER events_no_update BEFORE update ON events BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER events_no_delete BEFORE delete ON events BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER erased_no_update BEFORE update ON erased BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER erased_no_delete BEFORE delete ON erased BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER steps_no_update BEFORE update ON steps BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER steps_no_delete BEFORE delete ON steps BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
COMMIT;
