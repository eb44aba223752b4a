// Numbers as people read them: three significant digits and a unit.
#pragma once

#include <cstdint>
#include <string>

namespace reprise {

/// "12.3 ms", "4.56 s", "789 us".
std::string duration_text(double nanoseconds);
std::string time_text(int64_t time_ns);
/// "18 %", "0.4 %"; of a part, "-" of nothing.
std::string share_text(double share);
std::string share_text(int64_t part, int64_t whole);
/// "25.5 MB" (powers of ten).
std::string bytes_text(double bytes);
/// "+1.2 %".
std::string percent_text(double ratio);

}  // namespace reprise
