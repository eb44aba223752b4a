// A database in a file that need not have a name: while it is written nobody
// else can open it, and it goes with the process that writes it.
#pragma once

#include "data/io/sqlite.h"
#include "data/result.h"

namespace reprise {

/// An empty database in the file behind `descriptor`, which is open for reading
/// and writing, empty, and stays open longer than the database. Without locks,
/// and without a journal whatever its mode. Errors: kIo with SQLite's message.
Result<Database> open_database_in(int descriptor);

}  // namespace reprise
