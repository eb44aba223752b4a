// Random programs of dots and what may follow them: any plan gives the bits of
// the identity plan.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "data/hlo/hlo.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/executor.h"
#include "runtime/cpu/kernel_loader.h"
#include "runtime/process/process_group.h"
#include "tests/testing/parse_inlined.h"
#include "tests/testing/random_plan.h"

namespace reprise {
namespace {

/// Text of a chain of layers x·w with random transposes, views, scales, biases,
/// residuals, sums of products and relus; every layer's result is an output, or
/// read by later ones only.
class ProgramMaker {
 public:
  explicit ProgramMaker(uint64_t seed) : random_(seed) {}

  std::string make() {
    const int layers = 2 + below(3);
    rows_ = 1 + below(40);
    columns_ = 2 + below(40);
    value_ = parameter({rows_, columns_});
    for (int layer = 0; layer < layers; ++layer) add_layer();
    return finish();
  }

 private:
  using Dimensions = std::vector<int>;

  int below(int bound) {
    return static_cast<int>(random_() % static_cast<uint64_t>(bound));
  }
  static std::string shape(const Dimensions& dimensions) {
    return fmt::format("f32[{}]", fmt::join(dimensions, ","));
  }
  std::string line(const Dimensions& dimensions, const std::string& what) {
    const std::string name = fmt::format("v{}", count_++);
    body_ += fmt::format("  {} = {} {}\n", name, shape(dimensions), what);
    return name;
  }
  std::string parameter(const Dimensions& dimensions) {
    return line(dimensions, fmt::format("parameter({})", parameters_++));
  }
  std::string spread(double constant) {
    const std::string scalar = line({}, fmt::format("constant({})", constant));
    return line({rows_, columns_},
                fmt::format("broadcast({}), dimensions={{}}", scalar));
  }

  /// value · w, w as it stands or transposed.
  std::string dot(int columns) {
    const bool turned = below(2) == 0;
    const std::string weight = turned ? parameter({columns, columns_})
                                      : parameter({columns_, columns});
    return line({rows_, columns},
                fmt::format("dot({}, {}), lhs_contracting_dims={{1}}, "
                            "rhs_contracting_dims={{{}}}",
                            value_, weight, turned ? 1 : 0));
  }

  void add_layer() {
    const int columns = 2 + below(40);
    const std::string first = dot(columns);
    const std::string second = below(4) == 0 ? dot(columns) : "";
    columns_ = columns;
    value_ = first;
    if (below(5) == 0) {
      value_ = line({columns_, rows_},
                    fmt::format("transpose({}), dimensions={{1,0}}", value_));
      std::swap(rows_, columns_);
    }
    const Dimensions dimensions{rows_, columns_};
    if (below(3) == 0) step("multiply", spread(0.1 * (1 + below(30))));
    if (below(2) == 0) {
      const std::string bias = parameter({columns_});
      step("add", line(dimensions,
                       fmt::format("broadcast({}), dimensions={{1}}", bias)));
    }
    if (!second.empty() && columns_ == columns) step("add", second);
    if (below(3) == 0) step("add", parameter(dimensions));
    if (below(3) == 0)
      value_ =
          line(dimensions, fmt::format("maximum({}, {})", value_, spread(0)));
    if (below(3) == 0)
      value_ = line(dimensions, fmt::format("tanh({})", value_));
    if (below(3) == 0) outputs_.push_back({dimensions, value_});
  }

  /// value = op(value, other) or op(other, value).
  void step(const char* op, const std::string& other) {
    const bool first = below(2) == 0;
    value_ = line({rows_, columns_},
                  fmt::format("{}({}, {})", op, first ? value_ : other,
                              first ? other : value_));
  }

  std::string finish() {
    outputs_.push_back({{rows_, columns_}, value_});
    std::vector<std::string> shapes, names;
    for (const auto& [dimensions, name] : outputs_) {
      shapes.push_back(shape(dimensions));
      names.push_back(name);
    }
    return fmt::format(
        "HloModule m\nENTRY main {{\n{}  ROOT out = ({}) tuple({})\n}}\n",
        body_, fmt::join(shapes, ", "), fmt::join(names, ", "));
  }

  std::mt19937_64 random_;
  std::string body_, value_;
  int count_ = 0, parameters_ = 0, rows_ = 1, columns_ = 1;
  std::vector<std::pair<Dimensions, std::string>> outputs_;
};

/// Outputs after one step over the same random parameters.
std::vector<std::vector<std::byte>> run_plan(const InlinedModule& module,
                                             const Plan& plan,
                                             size_t* fused_dots) {
  const Result<Schedule> schedule = lower_schedule(module, plan);
  EXPECT_TRUE(schedule) << schedule.error().message;
  for (const Unit& unit : schedule->units) {
    if (unit.kind == UnitKind::kLibrary && !unit.dot.is_plain()) ++*fused_dots;
  }
  const auto alone = make_single_process_group();
  // Interpreted kernels give the bits of compiled ones, without a compiler.
  const Result<LoadedKernels> kernels = load_kernels(
      *schedule, {.interpret = true, .cache_directory = ""}, *alone);
  EXPECT_TRUE(kernels) << kernels.error().message;
  const auto communicator = make_solo_communicator();
  const auto executor = Executor::create(module, *schedule, kernels->code,
                                         *communicator, nullptr, {});
  EXPECT_TRUE(executor) << executor.error().message;
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (size_t p = 0; p < schedule->parameter_buffers.size(); ++p) {
    const auto bytes = (*executor)->parameter(static_cast<int64_t>(p));
    for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      const float value = uniform(random);
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
  }
  EXPECT_TRUE((*executor)->run_step(0));
  std::vector<std::vector<std::byte>> outputs;
  for (size_t o = 0; o < schedule->outputs.size(); ++o) {
    const auto bytes = (*executor)->output(static_cast<int64_t>(o));
    outputs.emplace_back(bytes.begin(), bytes.end());
  }
  return outputs;
}

TEST(DotPlans, GiveTheBitsOfTheIdentityPlan) {
  size_t fused_dots = 0, plain = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const std::string text = ProgramMaker(seed).make();
    const Result<InlinedModule> module = parse_inlined(text);
    ASSERT_TRUE(module) << module.error().message << "\n" << text;
    const auto expected = run_plan(*module, identity_plan(*module, 1), &plain);
    ASSERT_EQ(plain, 0U);
    for (uint64_t which = 0; which < 3; ++which) {
      const Plan plan = random_valid_plan(*module, 10 * seed + which, 1);
      ASSERT_EQ(run_plan(*module, plan, &fused_dots), expected)
          << print_plan(plan) << text;
    }
  }
  EXPECT_GT(fused_dots, 60U);  // Or the test tests little.
}

}  // namespace
}  // namespace reprise
