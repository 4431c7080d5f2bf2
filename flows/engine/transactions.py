"""Transactions of a Prefect server on SQLite: they wait for their turn to write.

Prefect loads this module in each of its servers, by the entry point ``prefect.collections`` of our distribution.

Prefect 3.8.8 begins most transactions ``DEFERRED``. One that has read, and writes after another one wrote, is refused
at once ("database is locked", status 503), and the client asks again after 2, 4, 8 ... seconds. The refusal also leaves
a cursor behind, in a cycle with its traceback. Once the garbage collector resets that cursor in the server's one thread
while the cursor's connection waits to write, the thread waits for the connection, the connection waits for a
transaction that only this thread can end, and the whole server stands still until SQLite gives up after 60 seconds.

``BEGIN IMMEDIATE`` takes the right to write at once and waits for it: nothing is refused, so no cursor is left.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prefect.server.database.configurations import AioSqliteConfiguration
    from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction

DATABASES = "prefect.server.database.configurations"


@asynccontextmanager
async def begin_to_write(
    _: AioSqliteConfiguration,
    session: AsyncSession,
    with_for_update: bool = False,  # noqa: ARG001
) -> AsyncIterator[AsyncSessionTransaction]:
    """Begin a transaction that may write, once it is its turn.

    ``with_for_update`` asks for no more than that, and so makes no difference.
    """
    mode = sys.modules[DATABASES].SQLITE_BEGIN_MODE
    token = mode.set("IMMEDIATE")
    try:
        async with session.begin() as transaction:
            await session.connection()
            # A session that is opened meanwhile, to read, has a connection of its own and must not wait for this one.
            mode.set(None)
            yield transaction
    finally:
        mode.reset(token)


def install() -> None:
    """Let transactions of this process begin so, if it is a server.

    Workers load the module too, and hold no database.
    """
    if DATABASES in sys.modules:
        sys.modules[DATABASES].AioSqliteConfiguration.begin_transaction = begin_to_write


install()
