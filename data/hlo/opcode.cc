#include "data/hlo/opcode.h"

#include <array>
#include <string_view>
#include <unordered_map>

namespace reprise {
namespace {

constexpr std::array kNames = {
#define REPRISE_HLO_OPCODE(id, text) std::string_view(text),
    REPRISE_HLO_OPCODES(REPRISE_HLO_OPCODE)
#undef REPRISE_HLO_OPCODE
};

}  // namespace

std::string_view opcode_name(Opcode opcode) {
  return kNames[static_cast<size_t>(opcode)];
}

std::optional<Opcode> opcode_from_name(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, Opcode> map;
    for (size_t i = 0; i < kNames.size(); ++i)
      map.emplace(kNames[i], static_cast<Opcode>(i));
    return map;
  }();
  const auto found = by_name.find(name);
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

}  // namespace reprise
