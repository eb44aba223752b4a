// gzip by ISA-L.
#pragma once

#include <string>
#include <string_view>

namespace reprise {

/// Returns `bytes` as one gzip member without name or time: the same bytes
/// every time.
std::string gzip(std::string_view bytes);

}  // namespace reprise
