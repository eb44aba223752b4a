#include "data/formats/nccl_names.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <utility>

namespace reprise {
namespace {

using Word = std::pair<std::string_view, std::string_view>;

/// The operation comes early in a name; templates and parameters may be long.
constexpr size_t kTellingPart = 128;

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
constexpr std::array<Word, 15> kOperations = {{
    {"allreduce", "all-reduce"},
    {"allgather", "all-gather"},
    {"reducescatter", "reduce-scatter"},
    {"alltoall", "all-to-all"},
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

}  // namespace

std::string_view collective_word(std::string_view name) {
  const std::string letters = squeezed(name);
  size_t first = std::string::npos;
  std::string_view word;
  for (const Word& operation : kOperations) {
    const size_t at = letters.find(operation.first);
    if (at < first) {
      first = at;
      word = operation.second;
    }
  }
  return word;
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
  if (hlo_type.empty()) return 0;
  if (hlo_type == "pred" || hlo_type.starts_with("f8")) return 1;
  if (hlo_type == "c128") return 16;
  if (hlo_type.ends_with("64")) return 8;
  if (hlo_type.ends_with("32")) return 4;
  return hlo_type.ends_with("16") ? 2 : 1;
}

std::string collective_key(std::string_view op, int64_t group_size,
                           int64_t bytes, std::string_view hlo_type) {
  return fmt::format("collective:{}:{}:{}:{}", op, group_size, bytes, hlo_type);
}

std::string collective_title(std::string_view op, int64_t group_size,
                             int64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"B",   "KiB", "MiB",
                                                      "GiB", "TiB", "PiB"};
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{} {:.4g} {}, {} ranks", op, amount, kUnits[unit],
                     group_size);
}

}  // namespace reprise
