-- A log as sage wrote it in format 5: `sqlite3 log.db .dump`, with the two numbers that a dump leaves out.
PRAGMA application_id = 1396787013;
PRAGMA user_version = 5;
BEGIN TRANSACTION;
CREATE TABLE decisions (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time REAL NOT NULL, data_source TEXT NOT NULL,
  tenant TEXT NOT NULL, session TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "decisions" VALUES(1,'ci-then-client',1780000000.0,'real','team','s','{"id":"ci-then-client","time":1780000000.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5],"features_version":1,"task_id":"","category":"","tenant":"team","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"schema":1}');
INSERT INTO "decisions" VALUES(2,'client-then-ci',1780000000.0,'real','team','s','{"id":"client-then-ci","time":1780000000.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5],"features_version":1,"task_id":"","category":"","tenant":"team","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"schema":1}');
INSERT INTO "decisions" VALUES(3,'by-hand',1780000000.0,'real','team','s','{"id":"by-hand","time":1780000000.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5],"features_version":1,"task_id":"","category":"","tenant":"team","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":0.5,"schema":1}');
INSERT INTO "decisions" VALUES(4,'open',1780000000.0,'real','team','s','{"id":"open","time":1780000000.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5],"features_version":1,"task_id":"","category":"","tenant":"team","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":2.0,"schema":1}');
INSERT INTO "decisions" VALUES(5,'raised',1780000000.0,'real','team','s','{"id":"raised","time":1780000000.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5],"features_version":1,"task_id":"","category":"","tenant":"team","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":1.0,"schema":1}');
INSERT INTO "decisions" VALUES(6,'shadowed',1780000000.0,'real','team','s','{"id":"shadowed","time":1780000000.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5],"features_version":1,"task_id":"","category":"","tenant":"team","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"shadow":"large","shadow_probabilities":[0.0,0.5],"schema":1}');
INSERT INTO "decisions" VALUES(7,'step',1780000000.0,'real','team','s','{"id":"step","time":1780000000.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.5,0.5,0.5],"features_version":1,"task_id":"","category":"","tenant":"team","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"expected_cost_usd":null,"cascade":{"cascade_id":"all","number":0,"attempts":[]},"schema":1}');
CREATE TABLE erased (
  kind TEXT NOT NULL, seq INTEGER NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (kind, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
  seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE TABLE outcomes (
  seq INTEGER PRIMARY KEY, decision_id TEXT NOT NULL, status TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "outcomes" VALUES(1,'ci-then-client','joined','{"decision_id":"ci-then-client","time":1780000001.0,"quality":null,"cost_usd":0.25,"latency_s":1.5,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(2,'ci-then-client','joined','{"decision_id":"ci-then-client","time":1780000002.0,"quality":0.0,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"ci: tests","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(3,'ci-then-client','corrected','{"decision_id":"ci-then-client","time":1780000003.0,"quality":1.0,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"api: me","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(4,'client-then-ci','joined','{"decision_id":"client-then-ci","time":1780000002.0,"quality":1.0,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"api","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(5,'client-then-ci','conflict','{"decision_id":"client-then-ci","time":1780000003.0,"quality":0.0,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"ci","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(6,'by-hand','joined','{"decision_id":"by-hand","time":1780000002.0,"quality":1.0,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"ci: tests","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(7,'by-hand','corrected','{"decision_id":"by-hand","time":1780000003.0,"quality":0.5,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"a person","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(8,'shadowed','joined','{"decision_id":"shadowed","time":1780000001.0,"quality":1.0,"cost_usd":0.5,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"schema":1,"shadow":{"decision_id":"shadowed","time":1780000001.0,"quality":0.5,"cost_usd":null,"latency_s":1.0,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"schema":1}}');
INSERT INTO "outcomes" VALUES(9,'step','joined','{"decision_id":"step","time":1780000001.0,"quality":null,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"schema":1,"verdicts":[{"verifier":"lint","verdict":"passed","source":""}]}');
INSERT INTO "outcomes" VALUES(10,'client-then-ci','conflict','{"decision_id":"client-then-ci","time":1780000004.0,"quality":0.75,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"api","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(11,'client-then-ci','conflict','{"decision_id":"client-then-ci","time":1780000004.0,"quality":0.75,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"api","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(12,'client-then-ci','conflict','{"decision_id":"client-then-ci","time":1780000004.0,"quality":0.75,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"api","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(13,'client-then-ci','conflict','{"decision_id":"client-then-ci","time":1780000004.0,"quality":0.75,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"api","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(14,'client-then-ci','conflict','{"decision_id":"client-then-ci","time":1780000004.0,"quality":0.75,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"api","model":null,"schema":1}');
INSERT INTO "outcomes" VALUES(15,'early','unknown','{"decision_id":"early","time":1780000004.0,"quality":1.0,"cost_usd":8.0,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","model":null,"schema":1}');
CREATE TABLE reservations (decision_id TEXT PRIMARY KEY, usd REAL NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "reservations" VALUES('raised',4.0);
CREATE TABLE spending (
  tenant TEXT NOT NULL, session TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;
INSERT INTO "spending" VALUES('team','s',7.25);
CREATE TABLE steps (
  cascade_id TEXT NOT NULL, number INTEGER NOT NULL, decision_id TEXT NOT NULL, PRIMARY KEY (cascade_id, number)
) STRICT, WITHOUT ROWID;
INSERT INTO "steps" VALUES('all',0,'step');
CREATE TABLE tenant_days (
  tenant TEXT NOT NULL, day TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (tenant, day)
) STRICT, WITHOUT ROWID;
INSERT INTO "tenant_days" VALUES('team','2026-05-28',7.25);
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
