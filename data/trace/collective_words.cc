// Names are squeezed to lower-case letters and digits and looked for in tables
// in which a longer word stands before those that it contains ("reducescatter"
// before "reduce").
#include "data/trace/collective_words.h"

#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

namespace reprise {
namespace {

using Word = std::pair<std::string_view, std::string_view>;

/// The operation comes early in a name; templates and parameters may be long.
constexpr size_t kTellingPart = 256;

/// Lower-case letters and digits alone: "nccl:all_reduce" is "ncclallreduce".
std::string squeezed(std::string_view name) {
  std::string result;
  for (const char c : name.substr(0, kTellingPart)) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) result += static_cast<char>(std::tolower(byte));
  }
  return result;
}

// A longer word stands before those that it contains.
constexpr std::array<Word, 16> kOperations = {{
    {"allreduce", "all-reduce"},
    {"allgather", "all-gather"},
    {"reducescatter", "reduce-scatter"},
    {"alltoall", "all-to-all"},
    {"collectivepermute", ""},
    {"sendrecv", ""},
    {"generic", ""},
    {"barrier", "barrier"},
    {"broadcast", "broadcast"},
    {"bcast", "broadcast"},
    {"receive", "receive"},
    {"recv", "receive"},
    {"send", "send"},
    {"scatter", "scatter"},
    {"gather", "gather"},
    {"reduce", "reduce"},
}};

constexpr std::array<Word, 50> kTypes = {{
    {"float", "f32"},
    {"float32", "f32"},
    {"half", "f16"},
    {"float16", "f16"},
    {"double", "f64"},
    {"float64", "f64"},
    {"bfloat16", "bf16"},
    {"bfloat", "bf16"},
    {"int8", "s8"},
    {"char", "s8"},
    {"signedchar", "s8"},
    {"uint8", "u8"},
    {"byte", "u8"},
    {"unsignedchar", "u8"},
    {"short", "s16"},
    {"int16", "s16"},
    {"shortint", "s16"},
    {"uint16", "u16"},
    {"int", "s32"},
    {"int32", "s32"},
    {"uint32", "u32"},
    {"unsignedint", "u32"},
    {"long", "s64"},
    {"longint", "s64"},
    {"longlong", "s64"},
    {"int64", "s64"},
    {"uint64", "u64"},
    {"unsignedlong", "u64"},
    {"bool", "pred"},
    {"f8e4m3", "f8e4m3fn"},
    {"fp8e4m3", "f8e4m3fn"},
    {"float8e4m3", "f8e4m3fn"},
    {"float8e4m3fn", "f8e4m3fn"},
    {"f8e5m2", "f8e5m2"},
    {"fp8e5m2", "f8e5m2"},
    {"float8e5m2", "f8e5m2"},
    {"f16", "f16"},
    {"bf16", "bf16"},
    {"f32", "f32"},
    {"f64", "f64"},
    {"s8", "s8"},
    {"u8", "u8"},
    {"s32", "s32"},
    {"u32", "u32"},
    {"s64", "s64"},
    {"u64", "u64"},
    {"i32", "s32"},
    {"i64", "s64"},
    {"complexfloat", "c64"},
    {"complexdouble", "c128"},
}};

/// The operation that is named first.
std::optional<std::string_view> first_operation(std::string_view name) {
  const std::string letters = squeezed(name);
  size_t first = std::string::npos;
  std::optional<std::string_view> word;
  for (const auto& [spelling, operation] : kOperations) {
    const size_t at = letters.find(spelling);
    if (at < first) {
      first = at;
      word = operation;
    }
  }
  return word;
}

}  // namespace

std::string_view collective_word(std::string_view name) {
  return first_operation(name).value_or(std::string_view());
}

bool holds_collective_word(std::string_view name) {
  return first_operation(name).has_value();
}

std::string_view hlo_type_word(std::string_view name) {
  std::string letters = squeezed(name);
  for (const std::string_view prefix : {"tensor", "nccl", "c10"}) {
    if (letters.starts_with(prefix)) letters.erase(0, prefix.size());
  }
  for (const Word& type : kTypes) {
    if (letters == type.first) return type.second;
  }
  return {};
}

int64_t bytes_of_type(std::string_view hlo_type) {
  constexpr std::array<std::pair<std::string_view, int64_t>, 17> kBytes = {{
      {"pred", 1},
      {"s4", 1},
      {"u4", 1},
      {"s8", 1},
      {"u8", 1},
      {"s16", 2},
      {"u16", 2},
      {"f16", 2},
      {"bf16", 2},
      {"s32", 4},
      {"u32", 4},
      {"f32", 4},
      {"s64", 8},
      {"u64", 8},
      {"f64", 8},
      {"c64", 8},
      {"c128", 16},
  }};
  if (hlo_type.starts_with("f8")) return 1;
  for (const auto& [type, bytes] : kBytes) {
    if (hlo_type == type) return bytes;
  }
  return 0;
}

}  // namespace reprise
