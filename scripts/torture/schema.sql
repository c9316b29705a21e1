-- What commands did. Every row says which attempt wrote it: job, slot, attempt, token, run; at is CLOCK_BOOTTIME of the
-- writer just before it sent the row, ns; seq is PostgreSQL's own order.


CREATE UNLOGGED TABLE raw ( -- no fence: takes every write
  seq bigserial PRIMARY KEY, job text, slot text, attempt int, token bigint, run text, at bigint);
CREATE INDEX ON raw (job);

CREATE UNLOGGED TABLE fenced ( -- takes no write of an older token after one of a newer
  seq bigserial PRIMARY KEY, job text, slot text, attempt int, token bigint, run text, at bigint);
CREATE INDEX ON fenced (job);

CREATE UNLOGGED TABLE refused ( -- what the fence did not take
  seq bigserial PRIMARY KEY, job text, slot text, attempt int, token bigint, run text, at bigint);
CREATE INDEX ON refused (job);

CREATE UNLOGGED TABLE once ( -- the effect that must not come twice, and its completion mark
  job text, slot text, attempt int, token bigint, run text, at bigint);
CREATE UNLOGGED TABLE done (job text, slot text, PRIMARY KEY (job, slot));

CREATE UNLOGGED TABLE ended ( -- the last thing that a command does by itself
  job text, slot text, attempt int, token bigint, run text, at bigint, status int);

CREATE UNLOGGED TABLE fence (job text PRIMARY KEY, token bigint NOT NULL, run text NOT NULL);

-- raise lets a transaction write if its token is the newest, and keeps newer ones waiting until it has committed.
CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  j text   := current_setting('torture.job');
  t bigint := current_setting('torture.token')::bigint;
  r text   := current_setting('torture.run');
BEGIN
  PERFORM 1 FROM fence f WHERE f.job = j AND f.token = t AND f.run = r FOR SHARE;
  IF FOUND THEN RETURN NULL; END IF;
  INSERT INTO fence AS f VALUES (j, t, r)
    ON CONFLICT (job) DO UPDATE SET token = EXCLUDED.token, run = EXCLUDED.run WHERE f.token < EXCLUDED.token;
  PERFORM 1 FROM fence f WHERE f.job = j AND f.token = t AND f.run = r FOR SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'stale token % for %', t, j USING ERRCODE = 'OF002';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER raise BEFORE INSERT ON fenced FOR EACH STATEMENT EXECUTE FUNCTION raise();

-- For a control: the same check, made before the write and apart from it.
CREATE UNLOGGED TABLE checked (job text PRIMARY KEY, token bigint NOT NULL);
