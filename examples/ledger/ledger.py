"""An accounts ledger in PostgreSQL: postings become entries and balances; what would overdraw an account is rejected."""

import os

import psycopg

import millstream
from millstream.external import SqlStore


def connect():
    """All rows that a posting touches are its account's, and all postings of an account are one task's: nobody waits for a lock
    longer than a dead owner's connection lives."""
    return psycopg.connect(os.environ["LEDGER_DATABASE"], connect_timeout=5, options="-c lock_timeout=10s")


app = millstream.App()
app.external_store(SqlStore(connect))


@app.on("postings")
def post(ctx, record):
    account, posting = record.key, record.value
    ctx.sql.execute("SELECT cents FROM accounts WHERE id = %s", (account,))
    row = ctx.sql.fetchone()
    cents = posting["cents"] + (0 if row is None else row[0])
    if cents < 0:
        ctx.emit("rejected", key=account, value={"id": posting["id"], "missing": -cents})
        return
    ctx.sql.execute(
        "INSERT INTO accounts (id, cents) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET cents = excluded.cents", (account, cents)
    )
    ctx.sql.execute("INSERT INTO entries (posting, account, cents) VALUES (%s, %s, %s)", (posting["id"], account, posting["cents"]))
    ctx.emit("balances", key=account, value={"id": posting["id"], "cents": cents})


if __name__ == "__main__":
    app.run()
