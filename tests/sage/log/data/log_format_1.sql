-- A log as sage wrote it in format 1: `sqlite3 log.db .dump`, with the two numbers that a dump leaves out.
PRAGMA application_id = 1396787013;
PRAGMA user_version = 1;
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
INSERT INTO "decisions" VALUES(1,'whole',1000.0,'real','default','s','{"id":"whole","time":1000.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.25],"features_version":1,"task_id":"","category":"","tenant":"default","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"schema":1}');
INSERT INTO "decisions" VALUES(2,'in-two-parts',1001.0,'real','default','s','{"id":"in-two-parts","time":1001.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.25],"features_version":1,"task_id":"","category":"","tenant":"default","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"schema":1}');
INSERT INTO "decisions" VALUES(3,'corrected-by-a-second',1002.0,'real','default','s','{"id":"corrected-by-a-second","time":1002.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.25],"features_version":1,"task_id":"","category":"","tenant":"default","session":"s","verdict":"ok","confidence":null,"reason":"","prompt":null,"schema":1}');
INSERT INTO "decisions" VALUES(4,'late',1003.0,'real','default','t','{"id":"late","time":1003.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"large","policy":"static","policy_version":"1","features":[0.5,0.25],"features_version":1,"task_id":"","category":"","tenant":"default","session":"t","verdict":"ok","confidence":null,"reason":"","prompt":null,"schema":1}');
INSERT INTO "decisions" VALUES(5,'silent',1004.0,'real','default','t','{"id":"silent","time":1004.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.25],"features_version":1,"task_id":"","category":"","tenant":"default","session":"t","verdict":"ok","confidence":null,"reason":"","prompt":null,"schema":1}');
INSERT INTO "decisions" VALUES(6,'early',1005.0,'real','default','t','{"id":"early","time":1005.0,"data_source":"real","role":"coder","candidates":["small","large"],"probabilities":[0.75,0.25],"model":"small","policy":"static","policy_version":"1","features":[0.5,0.25],"features_version":1,"task_id":"","category":"","tenant":"default","session":"t","verdict":"ok","confidence":null,"reason":"","prompt":null,"schema":1}');
CREATE TABLE outcomes (
  seq INTEGER PRIMARY KEY, decision_id TEXT NOT NULL, status TEXT NOT NULL, record TEXT NOT NULL
) STRICT;
INSERT INTO "outcomes" VALUES(1,'whole','joined','{"decision_id":"whole","time":1010.0,"quality":1.0,"cost_usd":0.25,"latency_s":2.0,"retries":1,"timed_out":false,"tokens_in":9,"tokens_cached":3,"tokens_out":4,"provenance":"tests","schema":1}');
INSERT INTO "outcomes" VALUES(2,'in-two-parts','joined','{"decision_id":"in-two-parts","time":1010.0,"quality":null,"cost_usd":0.5,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","schema":1}');
INSERT INTO "outcomes" VALUES(3,'in-two-parts','duplicate','{"decision_id":"in-two-parts","time":2000.0,"quality":0.75,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","schema":1}');
INSERT INTO "outcomes" VALUES(4,'corrected-by-a-second','joined','{"decision_id":"corrected-by-a-second","time":1010.0,"quality":0.25,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","schema":1}');
INSERT INTO "outcomes" VALUES(5,'corrected-by-a-second','duplicate','{"decision_id":"corrected-by-a-second","time":1010.0,"quality":1.0,"cost_usd":2.0,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","schema":1}');
INSERT INTO "outcomes" VALUES(6,'late','late','{"decision_id":"late","time":1000000.0,"quality":null,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":true,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","schema":1}');
INSERT INTO "outcomes" VALUES(7,'early','unknown','{"decision_id":"early","time":1010.0,"quality":0.5,"cost_usd":4.0,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","schema":1}');
INSERT INTO "outcomes" VALUES(8,'nobody','unknown','{"decision_id":"nobody","time":1010.0,"quality":0.5,"cost_usd":null,"latency_s":null,"retries":0,"timed_out":false,"tokens_in":null,"tokens_cached":null,"tokens_out":null,"provenance":"","schema":1}');
CREATE TABLE spending (
  tenant TEXT NOT NULL, session TEXT NOT NULL, usd REAL NOT NULL, PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;
INSERT INTO "spending" VALUES('default','s',0.75);
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
COMMIT;
