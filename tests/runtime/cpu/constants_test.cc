#include "runtime/cpu/constants.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

template <typename T>
std::array<T, 2> written(const std::string& type, const std::string& literal) {
  const Result<Module> module =
      parse_hlo("HloModule m\n\nENTRY e {\n  ROOT k = " + type +
                "[2] constant(" + literal + ")\n}\n");
  EXPECT_TRUE(module) << module.error().message;
  std::array<T, 2> values{};
  if (!module) return values;
  const Status status =
      write_constant(*module, module->entry_computation().instructions[0], {},
                     std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(status) << status.error().message;
  return values;
}

TEST(Constants, KeepEveryBitOf64) {
  // 2^53 + 1 is no double.
  EXPECT_EQ(written<int64_t>("s64", "{9007199254740993, -9223372036854775808}"),
            (std::array<int64_t, 2>{9007199254740993, INT64_MIN}));
  EXPECT_EQ(
      written<uint64_t>("u64", "{9007199254740993, 18446744073709551615}"),
      (std::array<uint64_t, 2>{9007199254740993, UINT64_MAX}));
}

TEST(Constants, AreOfTheirType) {
  EXPECT_EQ(written<uint8_t>("pred", "{true, 0}"),
            (std::array<uint8_t, 2>{1, 0}));
  EXPECT_EQ(written<int8_t>("s8", "{-128, 127}"),
            (std::array<int8_t, 2>{-128, 127}));
  EXPECT_EQ(written<uint32_t>("u32", "{4294967295, 7}"),
            (std::array<uint32_t, 2>{4294967295, 7}));
  EXPECT_EQ(written<float>("f32", "{-2.5, 1e-3}"),
            (std::array<float, 2>{-2.5f, 1e-3f}));
}

TEST(Constants, RoundTo16Bits) {
  EXPECT_EQ(written<uint16_t>("bf16", "{1, -inf}"),
            (std::array<uint16_t, 2>{0x3f80, 0xff80}));
  EXPECT_EQ(written<uint16_t>("f16", "{-2, 0.5}"),
            (std::array<uint16_t, 2>{0xc000, 0x3800}));
}

/// What an opcode without operands gives on a rank.
uint32_t id_of(const std::string& header, const std::string& opcode,
               int64_t rank) {
  const Result<Module> module =
      parse_hlo("HloModule m" + header + "\nENTRY e {\n  ROOT k = u32[] " +
                opcode + "()\n}\n");
  EXPECT_TRUE(module) << module.error().message;
  std::array<uint32_t, 1> value{};
  const Status status = write_constant(
      *module, module->entry_computation().instructions[0],
      {.rank = rank, .ranks = 4}, std::as_writable_bytes(std::span(value)));
  EXPECT_TRUE(status) << status.error().message;
  return value[0];
}

TEST(Constants, NameTheDevice) {
  // A text of shard_map before any pass counts no devices.
  EXPECT_EQ(id_of("", "partition-id", 3), 3u);
  EXPECT_EQ(id_of(", num_partitions=4", "partition-id", 3), 3u);
  EXPECT_EQ(id_of(", num_partitions=4", "replica-id", 3), 0u);
  EXPECT_EQ(id_of(", replica_count=4", "replica-id", 3), 3u);
  EXPECT_EQ(id_of(", replica_count=4", "partition-id", 3), 0u);
  EXPECT_EQ(id_of(", replica_count=2, num_partitions=2", "partition-id", 3),
            1u);
  EXPECT_EQ(id_of(", replica_count=2, num_partitions=2", "replica-id", 2), 1u);
}

}  // namespace
}  // namespace reprise
