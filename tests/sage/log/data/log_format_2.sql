-- A log as sage wrote it in format 2: `sqlite3 log.db .dump`, with the two numbers that a dump leaves out.
PRAGMA application_id = 1396787013;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE bandit_cells (
  policy TEXT NOT NULL, role TEXT NOT NULL, category TEXT NOT NULL, model TEXT NOT NULL,
  count REAL NOT NULL, total REAL NOT NULL, PRIMARY KEY (policy, role, category, model)
) STRICT, WITHOUT ROWID;
INSERT INTO "bandit_cells" VALUES('ucb1','','','small',1.0,0.5);
CREATE TABLE decisions (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time REAL NOT NULL, data_source TEXT NOT NULL,
  tenant TEXT NOT NULL, session TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "decisions" VALUES(1,'whole',1000.0,'synthetic','default','s','{"id":"whole","time":1000.0,"data_source":"synthetic","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"features_version":1,"task_id":"t1","category":"c","tenant":"default","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":0.75,"schema":1}');
INSERT INTO "decisions" VALUES(2,'open',1000.0,'synthetic','default','s','{"id":"open","time":1000.0,"data_source":"synthetic","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"features_version":1,"task_id":"t2","category":"","tenant":"default","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":0.5,"schema":1}');
INSERT INTO "decisions" VALUES(3,'fallback',1000.0,'synthetic','default','s','{"id":"fallback","time":1000.0,"data_source":"synthetic","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5,0.5],"features_version":1,"task_id":"t3","category":"","tenant":"default","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"schema":1}');
CREATE TABLE erased (
  kind TEXT NOT NULL, seq INTEGER NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (kind, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO "erased" VALUES('decisions',4,'cffa1654c8d31c216d82c557ef3f50de03045c0811db0022f56e61db8fe79a88');
INSERT INTO "erased" VALUES('outcomes',5,'13ae4c8d671e54e86783bb738844e825fd2f3b2fe3f336d018a1ef8943b7c402');
CREATE TABLE events (
  seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "events" VALUES(1,1.79486450942339301108e+09,'unlogged','{"decisions": 3}');
INSERT INTO "events" VALUES(2,1.79486450942419075967e+09,'erased','{"decisions": 1, "outcomes": 1}');
CREATE TABLE outcomes (
  seq INTEGER PRIMARY KEY, decision_id TEXT NOT NULL, status TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "outcomes" VALUES(1,'whole','joined','{"decision_id":"whole","time":1010.0,"quality":null,"cost_usd":0.25,"latency_s":2.0,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(2,'whole','joined','{"decision_id":"whole","time":1010.0,"quality":0.5,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"tests","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(3,'fallback','joined','{"decision_id":"fallback","time":1010.0,"quality":1.0,"cost_usd":1.0,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":"large","schema":1}');
INSERT INTO "outcomes" VALUES(4,'fallback','corrected','{"decision_id":"fallback","time":1020.0,"quality":0.0,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"schema":1}');
CREATE TABLE spending (
  tenant TEXT NOT NULL, session TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;
INSERT INTO "spending" VALUES('default','s',1.75);
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
CREATE TRIGGER decisions_no_delete BEFORE delete ON decisions BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
CREATE TRIGGER outcomes_no_delete BEFORE delete ON outcomes BEGIN SELECT RAISE(ABORT, 'the decision log is append-only'); END;
COMMIT;
