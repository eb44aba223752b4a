// How a communicator is named of which only its program tells: by all groups
// that the devices form, among them that of whoever calls. The name is the same
// on every device, whichever of them a file holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// "devices:{0,1},{2,3}"; empty for what is too large to be a name.
std::string name_of_groups(const std::vector<std::vector<int64_t>>& groups);

/// The groups, each ascending; none of any other name, nor where a device is in
/// two of them.
std::optional<std::vector<std::vector<uint32_t>>> groups_named(
    std::string_view name);

}  // namespace reprise
