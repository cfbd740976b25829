-- A log as sage wrote it in format 6: d2 was erased by task, and d4 was deleted with another program.
PRAGMA application_id = 1396787013;
PRAGMA user_version = 6;
BEGIN TRANSACTION;
CREATE TABLE decisions (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time REAL NOT NULL, data_source TEXT NOT NULL,
  tenant TEXT NOT NULL, session TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "decisions" VALUES(1,'d1',1001.0,'real','default','','{"id":"d1","time":1001.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"features_version":1,"task_id":"t1","category":"","tenant":"default","session":"","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"schema":1}');
INSERT INTO "decisions" VALUES(3,'d3',1003.0,'real','default','','{"id":"d3","time":1003.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"features_version":1,"task_id":"t3","category":"","tenant":"default","session":"","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"schema":1}');
INSERT INTO "decisions" VALUES(5,'d5',1005.0,'real','default','','{"id":"d5","time":1005.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"features_version":1,"task_id":"t5","category":"","tenant":"default","session":"","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"schema":1}');
INSERT INTO "decisions" VALUES(6,'d6',1006.0,'real','default','','{"id":"d6","time":1006.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"features_version":1,"task_id":"t6","category":"","tenant":"default","session":"","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"schema":1}');
CREATE TABLE erased (
  kind TEXT NOT NULL, seq INTEGER NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (kind, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "erased" VALUES('decisions',2,'ccb06482a7da2f2b679a3b8aa09718241acacbc793d600a70c1304d1581f312d');
INSERT INTO "erased" VALUES('outcomes',2,'00543d67745aa5a3abdd2fb961900eff46fa3aab6dee3ca5b2aaaba95fded5a4');
CREATE TABLE events (
  seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "events" VALUES(1,1.79506380560354304306e+09,'erased','{"decisions": 1, "outcomes": 1}');
CREATE TABLE file_identity (id TEXT NOT NULL) STRICT;
INSERT INTO "file_identity" VALUES('ee57780e2b5d4beaa804dd1de94c0d7d');
CREATE TABLE known_outcomes (
  decision_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE TABLE outcomes (
  seq INTEGER PRIMARY KEY, decision_id TEXT NOT NULL, status TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "outcomes" VALUES(1,'d1','joined','{"decision_id":"d1","time":1010.0,"quality":0.5,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"source":"client","schema":1}');
INSERT INTO "outcomes" VALUES(3,'d3','joined','{"decision_id":"d3","time":1010.0,"quality":0.5,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"source":"client","schema":1}');
INSERT INTO "outcomes" VALUES(4,'d4','joined','{"decision_id":"d4","time":1010.0,"quality":0.5,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"source":"client","schema":1}');
INSERT INTO "outcomes" VALUES(5,'d5','joined','{"decision_id":"d5","time":1010.0,"quality":0.5,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"source":"client","schema":1}');
INSERT INTO "outcomes" VALUES(6,'d6','joined','{"decision_id":"d6","time":1010.0,"quality":0.5,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"source":"client","schema":1}');
CREATE TABLE reservations (decision_id TEXT PRIMARY KEY, usd REAL NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE spending (
  tenant TEXT NOT NULL, session TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;
CREATE TABLE steps (
  cascade_id TEXT NOT NULL, number INTEGER NOT NULL, decision_id TEXT NOT NULL, PRIMARY KEY (cascade_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE tenant_days (
  tenant TEXT NOT NULL, day TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (tenant, day)
) STRICT, WITHOUT ROWID;
CREATE INDEX outcomes_by_decision ON outcomes (decision_id);
CREATE TRIGGER decisions_once BEFORE INSERT ON decisions
  WHEN EXISTS (SELECT 1 FROM decisions WHERE id = NEW.id OR seq = NEW.seq)
  BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER outcomes_once BEFORE INSERT ON outcomes
  WHEN EXISTS (SELECT 1 FROM outcomes WHERE seq = NEW.seq)
  BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER decisions_no_update BEFORE update ON decisions BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER outcomes_no_update BEFORE update ON outcomes BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER events_no_update BEFORE update ON events BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER events_no_delete BEFORE delete ON events BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER erased_no_update BEFORE update ON erased BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER erased_no_delete BEFORE delete ON erased BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER steps_no_update BEFORE update ON steps BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER outcomes_no_delete BEFORE delete ON outcomes BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER steps_no_delete BEFORE delete ON steps BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
COMMIT;
