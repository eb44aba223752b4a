#include "tests/runtime/cpu/jax_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "tests/testing/directories.h"
#include "tests/testing/element_bits.h"

namespace reprise {
namespace {

/// Bytes of base64 text.
std::string decoded(const std::string& text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) break;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xff));
  }
  return bytes;
}

std::vector<double> elements(PrimitiveType type,
                             std::span<const std::byte> bytes) {
  const auto size = static_cast<size_t>(primitive_type_bits(type)) / 8;
  std::vector<double> values;
  for (size_t at = 0; at < bytes.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    values.push_back(element_of_bits(type, bits));
  }
  return values;
}

/// Of a result whose largest element is `scale`: sums in another order, a
/// library's own functions. Types keep 8 to 53 bits; a rounding is half a unit
/// in the last place, some tens of which may add up.
double tolerance(PrimitiveType type, double scale) {
  const FloatLayout layout = float_layout(type);
  if (layout.mantissa == 0) return 0;
  const double unit = std::ldexp(1.0, -layout.mantissa);
  const bool is_half = layout.mantissa < 23;
  return (is_half ? 4 : 24) * unit * (scale + 1e-6);
}

}  // namespace

std::vector<std::string> decode_arrays(const nlohmann::json& texts) {
  std::vector<std::string> all;
  for (const auto& text : texts) all.push_back(decoded(text));
  return all;
}

const std::vector<JaxCase>& jax_cases() {
  static const std::vector<JaxCase> kCases = [] {
    std::vector<JaxCase> cases;
    for (const char* name : {"jax_cases.jsonl", "gpu_cases.jsonl"}) {
      std::ifstream file(source_directory() + "/tests/runtime/cpu/" + name);
      for (std::string line; std::getline(file, line);) {
        const auto json = nlohmann::json::parse(line);
        cases.push_back({json["name"], json["hlo"],
                         decode_arrays(json["inputs"]),
                         decode_arrays(json["outputs"])});
      }
    }
    return cases;
  }();
  return kCases;
}

bool goes_by_blocks(const JaxCase& one) {
  return one.name.starts_with("cumprod.long") ||
         one.name.starts_with("cumlogsumexp.long.bfloat16") ||
         one.name.starts_with("cumlogsumexp.long.float16");
}

double rounding_of(const JaxCase& one) {
  for (const char* routine : {"syevd", "heevd", "gesdd", "gesvd", "geev"}) {
    if (one.hlo.find(routine) != std::string::npos) return 32;
  }
  // Where a device goes from one end to the other.
  if (goes_by_blocks(one)) return 2;
  return 1;
}

void expect_close(const std::string& what, const Shape& shape,
                  std::span<const std::byte> got, const std::string& bytes,
                  double times) {
  ASSERT_EQ(got.size(), bytes.size()) << what;
  const std::vector<double> have = elements(shape.type, got);
  const std::vector<double> want =
      elements(shape.type, std::as_bytes(std::span(bytes)));
  double scale = 0;
  for (const double value : want) {
    if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
  }
  for (size_t i = 0; i < want.size(); ++i) {
    if (have[i] == want[i] || (std::isnan(have[i]) && std::isnan(want[i])))
      continue;
    ASSERT_NEAR(have[i], want[i], times * tolerance(shape.type, scale))
        << what << ", element " << i << " of " << shape_text(shape, false);
  }
}

}  // namespace reprise
