// What compiled kernels leave alone in place, loops that run piece by piece,
// and rows that are written out: the same bytes as the interpreter's.
#include "runtime/kernels/print_kernel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "data/hlo/hlo.h"
#include "data/kernel/group.h"
#include "data/kernel/kernel_parts.h"
#include "runtime/kernels/loop_segments.h"
#include "runtime/kernels/loop_tiles.h"
#include "runtime/kernels/row_blocks.h"
#include "tests/runtime/kernels/compiled_kernel.h"

namespace reprise {
namespace {

/// Rows of a page each, of which writing kills, but for one.
class GuardedRows {
 public:
  GuardedRows(const std::vector<char>& bytes, size_t writable_row)
      : size_(bytes.size()) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    data_ = static_cast<char*>(::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(data_, bytes.data(), size_);
    ::mprotect(data_, size_, PROT_READ);
    ::mprotect(data_ + writable_row * page, page, PROT_READ | PROT_WRITE);
  }
  ~GuardedRows() { ::munmap(data_, size_); }
  GuardedRows(const GuardedRows&) = delete;
  GuardedRows& operator=(const GuardedRows&) = delete;
  char* data() { return data_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

std::string stacks_of(size_t page_bytes) {
  return fmt::format(R"(
  s = f32[5,{0}] parameter(0)
  t = f32[5,{0}] parameter(1)
  u = f32[1,{0}] parameter(2)
  i = s32[] parameter(3)
  z = s32[] constant(0)
  n = f32[1,{0}] negate(u)
  a = f32[5,{0}] dynamic-update-slice(s, n, i, z)
  b = f32[5,{0}] dynamic-update-slice(t, u, i, z)
  ROOT r = (f32[5,{0}], f32[5,{0}]) tuple(a, b))",
                     page_bytes / sizeof(float));
}

class UpdatedRows : public testing::Test {
 protected:
  void SetUp() override {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    made_ = compiled(stacks_of(page), {"a", "b"});
    memory_ = random_inputs(made_.module, 3);
    const int32_t row = 2;
    std::memcpy(memory_[id("i")].data(), &row, sizeof row);
    wanted_ = memory_;
    run_kernel(made_.kernel, nullptr, wanted_);
  }
  uint32_t id(const std::string& name) const {
    const auto& all = made_.module.entry_computation().instructions;
    return static_cast<uint32_t>(
        std::find_if(all.begin(), all.end(),
                     [&](const Instruction& op) { return op.name == name; }) -
        all.begin());
  }
  void run(const std::map<std::string, char*>& data) {
    std::vector<void*> arguments;
    for (const KernelArgument& argument : made_.kernel.arguments) {
      const std::string& name =
          made_.module.entry_computation().at(argument.instruction).name;
      const auto given = data.find(name);
      arguments.push_back(given != data.end() ? given->second
                                              : memory_[id(name)].data());
    }
    made_.function()(arguments.data(), 0, kernel_iterations(made_.kernel));
  }
  void expect(const std::string& name, const char* bytes) const {
    const std::vector<char>& want = wanted_.at(id(name));
    EXPECT_EQ(std::memcmp(bytes, want.data(), want.size()), 0) << name;
  }

  Compiled made_;
  Memory memory_, wanted_;
};

TEST_F(UpdatedRows, AreAllThatIsWrittenInPlace) {
  GuardedRows s(memory_[id("s")], 2), t(memory_[id("t")], 2);
  run({{"s", s.data()}, {"a", s.data()}, {"t", t.data()}, {"b", t.data()}});
  expect("a", s.data());
  expect("b", t.data());
}

TEST_F(UpdatedRows, AndTheOthersAreCopiedWhereOneArrayIsNotInPlace) {
  std::vector<char> s = memory_[id("s")], b(memory_[id("t")].size(), 0x7f);
  run({{"s", s.data()}, {"a", s.data()}, {"b", b.data()}});
  expect("a", s.data());
  expect("b", b.data());
}

struct Pieces {
  const char* name;
  const char* entry;
  std::vector<int64_t> borders;
};

class LoopSegments : public testing::TestWithParam<Pieces> {};

/// The innermost loop of the first nest.
const KernelStatement& innermost(const std::vector<KernelStatement>& body) {
  for (const KernelStatement& statement : body) {
    if (statement.kind != KernelStatement::Kind::kLoop) continue;
    const bool is_last = std::none_of(
        statement.body.begin(), statement.body.end(), [](const auto& inner) {
          return inner.kind == KernelStatement::Kind::kLoop;
        });
    return is_last ? statement : innermost(statement.body);
  }
  return body.front();
}

/// Whole, and in two parts, as the interpreter.
void expect_same_bytes_in_parts(const Compiled& made) {
  Memory memory = random_inputs(made.module, 5);
  Memory want = memory;
  run_kernel(made.kernel, nullptr, want);
  run_kernel(made.kernel, made.function(), memory);
  EXPECT_EQ(memory, want);
  const int64_t extent = kernel_iterations(made.kernel);
  for (int64_t cut = 1; cut < std::min<int64_t>(extent, 130); cut += 3) {
    std::vector<void*> arguments;
    for (const KernelArgument& argument : made.kernel.arguments) {
      std::vector<char>& bytes = memory[index_of(argument.instruction)];
      if (argument.is_output) bytes.assign(bytes.size(), 0x7f);
      arguments.push_back(bytes.data());
    }
    made.function()(arguments.data(), cut, extent);
    made.function()(arguments.data(), 0, cut);
    ASSERT_EQ(memory, want) << "cut at " << cut;
  }
}

TEST_P(LoopSegments, GiveTheSameBytesWhereverALoopIsSplit) {
  const Compiled made = compiled(GetParam().entry, {"r"});
  EXPECT_EQ(loop_segments(made.kernel, innermost(made.kernel.body)),
            GetParam().borders)
      << kernel_text(made.kernel);
  expect_same_bytes_in_parts(made);
}

INSTANTIATE_TEST_SUITE_P(
    Entries, LoopSegments,
    testing::Values(Pieces{"concatenate",
                           R"(
  a = f32[40] parameter(0)  b = f32[50] parameter(1)  c = f32[30] parameter(2)
  ROOT r = f32[120] concatenate(a, b, c), dimensions={0})",
                           {0, 40, 90, 120}},
                    Pieces{"concatenated_rows",
                           R"(
  a = bf16[3,40] parameter(0)  b = bf16[3,50] parameter(1)
  ROOT r = bf16[3,90] concatenate(a, b), dimensions={1})",
                           {0, 40, 90}},
                    Pieces{"padded",
                           R"(
  a = f32[4,40] parameter(0)  z = f32[] parameter(1)
  ROOT r = f32[4,100] pad(a, z), padding=0_0x25_35)",
                           {0, 25, 65, 100}},
                    Pieces{"cut_and_padded",
                           R"(
  a = f32[4,40] parameter(0)  z = f32[] parameter(1)
  ROOT r = f32[4,50] pad(a, z), padding=0_0x-5_15)",
                           {0, 35, 50}},
                    Pieces{"sum_of_padded",
                           R"(
  a = f32[40] parameter(0)  b = f32[60] parameter(1)  z = f32[] constant(0)
  c = f32[100] pad(a, z), padding=0_60  d = f32[100] pad(b, z), padding=40_0
  ROOT r = f32[100] add(c, d))",
                           {0, 40, 100}},
                    Pieces{"short",
                           R"(
  a = f32[3] parameter(0)  b = f32[4] parameter(1)
  ROOT r = f32[7] concatenate(a, b), dimensions={0})",
                           {0, 7}},
                    Pieces{"halves",
                           R"(
  a = f32[30,4] parameter(0)  b = f32[30,4] parameter(1)
  ROOT r = f32[30,8] concatenate(a, b), dimensions={1})",
                           {0, 4, 8}},
                    Pieces{"many",
                           R"(
  a = f32[10] parameter(0)
  ROOT r = f32[100] concatenate(a, a, a, a, a, a, a, a, a, a), dimensions={0})",
                           {0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}},
                    Pieces{"too_many",
                           R"(
  a = f32[10] parameter(0)
  ROOT r = f32[500] concatenate(a, a, a, a, a, a, a, a, a, a, a, a, a, a, a,
    a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a,
    a, a, a, a, a, a, a, a, a, a, a), dimensions={0})",
                           {0, 500}},
                    // Windows that end at each element.
                    Pieces{"one_iteration_each",
                           R"(
  a = f32[16] parameter(0)  z = f32[] constant(1)
  ROOT r = f32[16] reduce-window(a, z), window={size=16 pad=15_0}, to_apply=times)",
                           {0, 16}},
                    Pieces{"one_iteration_each_of_rows",
                           R"(
  a = f32[3,12] parameter(0)  z = f32[] constant(1)
  ROOT r = f32[3,12] reduce-window(a, z), window={size=1x12 pad=0_0x11_0}, to_apply=times)",
                           {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}),
    [](const auto& pieces) { return pieces.param.name; });

TEST(MovedValues, KeepTheirBits) {
  const Compiled made = compiled(R"(
  a = f16[70,256] parameter(0)
  ROOT r = f16[256,70] transpose(a), dimensions={1,0})",
                                 {"r"});
  std::vector<uint16_t> from(70 * 256), to(from.size());
  std::iota(from.begin(), from.end(), uint16_t{0xf000});  // NaNs among them.
  void* arguments[] = {from.data(), to.data()};
  made.function()(arguments, 0, kernel_iterations(made.kernel));
  for (size_t i = 0; i < 70; ++i) {
    for (size_t j = 0; j < 256; ++j)
      ASSERT_EQ(to[j * 70 + i], from[i * 256 + j]) << i << ", " << j;
  }
}

class HardAndHeavy : public testing::TestWithParam<Pieces> {};

TEST_P(HardAndHeavy, GoesThroughColumns) {
  const Compiled made = compiled(GetParam().entry, {"r"});
  EXPECT_TRUE(goes_through_columns(made.kernel, innermost(made.kernel.body)))
      << kernel_text(made.kernel);
  expect_same_bytes_in_parts(made);
}

INSTANTIATE_TEST_SUITE_P(Entries, HardAndHeavy,
                         testing::Values(Pieces{"mask",
                                                R"(
  a = f32[1000] parameter(0)  m = pred[1000] parameter(1)
  e = f32[1000] exponential(a)  l = f32[1000] log(e)  c = f32[1000] cosine(l)
  ROOT r = f32[1000] select(m, c, a))",
                                                {}},
                                         Pieces{"half",
                                                R"(
  a = bf16[70,33] parameter(0)  e = bf16[70,33] exponential(a)
  l = bf16[70,33] log-plus-one(e)  ROOT r = bf16[70,33] tanh(l))",
                                                {}},
                                         Pieces{"stored_mask",
                                                R"(
  a = f32[130] parameter(0)  e = f32[130] exponential(a)
  l = f32[130] sine(e)  c = f32[130] cosine(e)
  ROOT r = pred[130] compare(l, c), direction=LT)",
                                                {}},
                                         Pieces{"backwards",
                                                R"(
  a = f32[9,130] parameter(0)  b = f32[9,130] reverse(a), dimensions={1}
  c = f32[9,65] slice(b), slice={[0:9], [0:130:2]}
  e = f32[9,65] exponential(c)  l = f32[9,65] log-plus-one(e)
  ROOT r = f32[9,65] sine(l))",
                                                {}}),
                         [](const auto& pieces) { return pieces.param.name; });

struct Blocks {
  const char* name;
  const char* entry;
  size_t loops;  ///< Of the block's nest; 0: there is no block.
  bool is_turned = false;
};

class LoopTiles : public testing::TestWithParam<Blocks> {};

TEST_P(LoopTiles, GiveTheSameBytesWhereverALoopIsSplit) {
  const Compiled made = compiled(GetParam().entry, {"r"});
  std::optional<LoopTile> found;
  const std::vector<KernelStatement>* at = &made.kernel.body;
  while (!found && at->back().kind == KernelStatement::Kind::kLoop) {
    found = loop_tile(made.kernel, at->back());
    at = &at->back().body;
  }
  EXPECT_EQ(found ? found->nest.size() : 0, GetParam().loops)
      << kernel_text(made.kernel);
  EXPECT_EQ(found && found->is_turned, GetParam().is_turned);
  expect_same_bytes_in_parts(made);
}

INSTANTIATE_TEST_SUITE_P(Entries, LoopTiles,
                         testing::Values(Blocks{"transposed",
                                                R"(
  a = f32[100,72] parameter(0)
  ROOT r = f32[72,100] transpose(a), dimensions={1,0})",
                                                2},
                                         Blocks{"with_a_loop_between",
                                                R"(
  a = f32[20,6,33] parameter(0)  b = f32[33] parameter(1)
  t = f32[33,6,20] transpose(a), dimensions={2,1,0}
  w = f32[33,6,20] broadcast(b), dimensions={0}
  ROOT r = f32[33,6,20] multiply(t, w))",
                                                3},
                                         Blocks{"inside_of_a_loop",
                                                R"(
  a = bf16[3,80,65] parameter(0)
  t = bf16[3,65,80] transpose(a), dimensions={0,2,1}
  ROOT r = bf16[3,65,80] negate(t))",
                                                2},
                                         Blocks{"whose_inputs_lie_across",
                                                R"(
  a = f32[64,90] parameter(0)  b = f32[64,90] parameter(1)
  s = f32[64,90] add(a, b)  m = f32[64,90] multiply(a, s)
  ROOT r = f32[90,64] transpose(m), dimensions={1,0})",
                                                2, true},
                                         Blocks{"few_lines",
                                                R"(
  a = f32[20,90] parameter(0)
  ROOT r = f32[90,20] transpose(a), dimensions={1,0})",
                                                0},
                                         Blocks{"as_it_lies",
                                                R"(
  a = f32[70,90] parameter(0)  b = f32[70] parameter(1)
  w = f32[70,90] broadcast(b), dimensions={0}
  ROOT r = f32[70,90] add(a, w))",
                                                0}),
                         [](const auto& blocks) { return blocks.param.name; });

/// Softmax and a mask over rows of `length`, of which the sums are stored, too.
std::string short_rows(const char* type, int64_t rows, int64_t length) {
  const auto shapes = [&](const char* of) {
    return std::pair{fmt::format("{}[{}]", of, rows),
                     fmt::format("{}[{},{}]", of, rows, length)};
  };
  const auto [row, all] = shapes(type);
  return fmt::format(R"(HloModule m
add {{ a = {0}[] parameter(0)  b = {0}[] parameter(1)
  ROOT r = {0}[] add(a, b) }}
most {{ a = {0}[] parameter(0)  b = {0}[] parameter(1)
  ROOT r = {0}[] maximum(a, b) }}
ENTRY main {{
  x = {2} parameter(0)
  weights = {0}[{4}] parameter(1)
  zero = {0}[] constant(0)
  least = {0}[] constant(-inf)
  top = {1} reduce(x, least), dimensions={{1}}, to_apply=most
  tops = {2} broadcast(top), dimensions={{0}}
  power = {2} subtract(x, tops)
  e = {2} exponential(power)
  sum = {1} reduce(e, zero), dimensions={{1}}, to_apply=add
  sums = {2} broadcast(sum), dimensions={{0}}
  p = {2} divide(e, sums)
  w = {2} broadcast(weights), dimensions={{1}}
  soft = {2} multiply(p, w)
  ROOT mask = {3} compare(soft, w), direction=GT
}}
)",
                     type, row, all, shapes("pred").second, length);
}

TEST(ShortRows, GiveTheBytesOfOneOpAfterTheOther) {
  for (const char* type : {"f32", "f64", "bf16"}) {
    for (const int64_t length : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
      for (const int64_t rows : {1, 7, 64, 150}) {
        Compiled made;
        made.module = *parse_hlo(short_rows(type, rows, length));
        const Computation& entry = made.module.entry_computation();
        std::vector<InstructionId> results;
        for (const InstructionId op : kernel_ops(made.module)) {
          const std::string& name = entry.at(op).name;
          if (name == "sum" || name == "soft" || name == "mask")
            results.push_back(op);
        }
        Result<Kernel> kernel =
            lower_kernel(made.module, kernel_ops(made.module), results);
        if (length > kShortRow && std::string_view(type) == "bf16") {
          // A sum in order beside a maximum by lanes.
          ASSERT_FALSE(kernel.has_value());
          EXPECT_EQ(kernel.error().kind, ErrorKind::kInfeasible);
          continue;
        }
        made.kernel = *std::move(kernel);
        made.library = *compile_kernels(
            {&made.kernel, 1},
            {.cache_directory = build_directory() + "/kernel_cache"});
        SCOPED_TRACE(kernel_text(made.kernel));
        EXPECT_EQ(made.kernel.accumulators.empty(), length <= kShortRow);
        expect_same_bytes_in_parts(made);
        Memory memory = random_inputs(made.module, 5);
        run_kernel(made.kernel, made.function(), memory);
        const Memory alone = run_one_by_one(made.module, 5);
        for (const InstructionId op : results) {
          EXPECT_EQ(first_difference(entry.at(op).shape, memory[index_of(op)],
                                     alone.at(index_of(op))),
                    -1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprise
