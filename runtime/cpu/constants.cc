#include "runtime/cpu/constants.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/kernel/group.h"

namespace reprise {

Status write_constant(const Module& module, const Instruction& constant,
                      const RankOfAll& place, std::span<std::byte> out) {
  if (constant.opcode != Opcode::kConstant) {
    const auto id =
        static_cast<uint32_t>(device_number(module, constant.opcode, place));
    REPRISE_CHECK(out.size() == sizeof id);
    std::memcpy(out.data(), &id, sizeof id);
    return {};
  }
  const Result<std::vector<std::string_view>> words = literal_words(constant);
  if (!words) return pass(words.error());
  const PrimitiveType type = constant.shape.type;
  if (!is_kernel_type(type)) {
    return fail(ErrorKind::kUnsupported, "constant of {}",
                primitive_type_name(type));
  }
  const auto bytes = static_cast<size_t>(primitive_type_bits(type) / 8);
  REPRISE_CHECK(out.size() == words->size() * bytes);
  std::byte* at = out.data();
  for (const std::string_view word : *words) {
    const uint64_t bits = literal_bits(type, std::string(word));
    std::memcpy(at, &bits, bytes);
    at += bytes;
  }
  return {};
}

}  // namespace reprise
