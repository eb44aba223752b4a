// What dPRO records of BytePS's parameter servers: their own work
// (server_timeline.json), between the messages that it waits for and those that
// it makes.
#pragma once

#include <cstdint>
#include <vector>

#include "data/formats/dpro/dpro_messages.h"
#include "data/formats/reader.h"

namespace reprise {

/// Reads the servers' own work into a spool of their own, a rank each, numbered
/// from `first_server` on, which take part in the workers' `messages`.
/// Errors: as read_timeline.
Status read_dpro_servers(ByteSource& source, uint32_t first_server,
                         const std::vector<DproMessage>& messages,
                         TraceSpool& spool, FileReport& report);

}  // namespace reprise
