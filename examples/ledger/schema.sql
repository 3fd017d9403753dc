CREATE TABLE IF NOT EXISTS accounts (id TEXT PRIMARY KEY, cents BIGINT NOT NULL);
-- Without a key on purpose: an entry that were made twice would be there twice, and verify.py would see it.
CREATE TABLE IF NOT EXISTS entries (posting BIGINT NOT NULL, account TEXT NOT NULL, cents BIGINT NOT NULL);
