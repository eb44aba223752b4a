// Small programs against JAX: every opcode that runs, in many forms and types,
// through lowering and the CPU's executor. Programs and values are in
// jax_cases.jsonl, made by make_cases.py.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/hlo/hlo.h"
#include "data/schedule/schedule.h"
#include "runtime/cpu/executor.h"
#include "runtime/cpu/kernel_loader.h"
#include "tests/testing/directories.h"
#include "tests/testing/element_bits.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

struct JaxCase {
  std::string name, hlo;
  std::vector<std::string> inputs, outputs;
};

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

std::vector<std::string> decoded_all(const nlohmann::json& texts) {
  std::vector<std::string> all;
  for (const auto& text : texts) all.push_back(decoded(text));
  return all;
}

const std::vector<JaxCase>& jax_cases() {
  static const std::vector<JaxCase> kCases = [] {
    std::vector<JaxCase> cases;
    std::ifstream file(source_directory() +
                       "/tests/runtime/cpu/jax_cases.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      cases.push_back({json["name"], json["hlo"], decoded_all(json["inputs"]),
                       decoded_all(json["outputs"])});
    }
    return cases;
  }();
  return kCases;
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

void expect_equal(const std::string& what, const Shape& shape,
                  std::span<const std::byte> got, const std::string& bytes) {
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
    ASSERT_NEAR(have[i], want[i], tolerance(shape.type, scale))
        << what << ", element " << i << " of " << shape_text(shape, false);
  }
}

/// Runs two steps, so that what a step leaves behind shows.
void run_case(const JaxCase& one, bool interpret) {
  const Result<InlinedModule> module = parse_inlined(one.hlo, one.name);
  ASSERT_TRUE(module) << module.error().message;
  const Result<Schedule> schedule =
      lower_schedule(*module, identity_plan(*module, 1));
  ASSERT_TRUE(schedule) << schedule.error().message;
  const auto alone = make_single_process_group();
  const Result<LoadedKernels> kernels =
      load_kernels(*schedule,
                   {.interpret = interpret,
                    .cache_directory = build_directory() + "/kernel_cache"},
                   *alone);
  ASSERT_TRUE(kernels) << kernels.error().message;
  const auto communicator = make_solo_communicator();
  const auto executor = Executor::create(*module, *schedule, kernels->code,
                                         *communicator, nullptr, {});
  ASSERT_TRUE(executor) << executor.error().message;
  const Computation& entry = module->entry_computation();
  const Instruction& root = entry.at(entry.root);
  for (int32_t step = 0; step < 2; ++step) {
    for (size_t n = 0; n < one.inputs.size(); ++n) {
      const auto to = (*executor)->parameter(static_cast<int64_t>(n));
      ASSERT_EQ(to.size(), one.inputs[n].size());
      std::memcpy(to.data(), one.inputs[n].data(), to.size());
    }
    const Status done = (*executor)->run_step(step);
    ASSERT_TRUE(done) << done.error().message;
  }
  for (size_t k = 0; k < one.outputs.size(); ++k) {
    const Shape& shape =
        root.shape.is_tuple() ? root.shape.elements[k] : root.shape;
    expect_equal(fmt::format("output {}", k), shape,
                 (*executor)->output(static_cast<int64_t>(k)), one.outputs[k]);
  }
}

class JaxCases : public testing::TestWithParam<JaxCase> {};

TEST_P(JaxCases, AgreeWithJax) { run_case(GetParam(), true); }

std::string test_name(const std::string& name) {
  std::string plain = name;
  for (char& c : plain) c = std::isalnum(c) != 0 ? c : '_';
  return plain;
}

INSTANTIATE_TEST_SUITE_P(All, JaxCases, testing::ValuesIn(jax_cases()),
                         [](const auto& one) {
                           return test_name(one.param.name);
                         });

/// Where generated code and routines call each other.
TEST(CompiledJaxCases, AgreeWithJax) {
  for (const JaxCase& one : jax_cases()) {
    const bool chosen =
        one.name == "scan.gradient" || one.name == "while.nested" ||
        one.name == "cond.1" || one.name == "sort.keys" ||
        one.name == "reduce.variadic" || one.name == "max_pool.gradient";
    if (chosen) {
      SCOPED_TRACE(one.name);
      run_case(one, false);
    }
  }
}

}  // namespace
}  // namespace reprise
