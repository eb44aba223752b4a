// Convolutions against their definition, summed in f64: random shapes, windows,
// groups and orders of dimensions, so that each of oneDNN's three forms, and
// what it has no words for, takes part. Scratch holds NaNs before each run:
// whatever reads what it did not write, padding of a layout included, shows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "data/hlo/hlo.h"
#include "runtime/cpu/array_view.h"
#include "runtime/cpu/convolution_geometry.h"
#include "runtime/cpu/convolution_parts.h"
#include "runtime/cpu/convolution_problem.h"
#include "runtime/cpu/library_convolution.h"
#include "tests/testing/element_bits.h"
#include "tests/testing/parse_inlined.h"

namespace reprise {
namespace {

using Dims = std::vector<int64_t>;

struct Spatial {
  int64_t in, taps, stride = 1, low = 0, high = 0, base = 1, dilation = 1;
  bool reversed = false;

  int64_t out() const {
    const int64_t dilated = (in - 1) * base + 1 + low + high;
    return (dilated - (taps - 1) * dilation - 1) / stride + 1;
  }
};

/// Of one convolution, before its dimensions are put in an order.
struct Case {
  std::array<std::string, 3> types = {"f32", "f32", "f32"};
  int64_t batch, in_features, out_features;
  int64_t feature_groups = 1, batch_groups = 1;
  std::vector<Spatial> spatial;
  /// [input, kernel, output] Which of (first, second, spatial…) stands where.
  std::array<std::vector<size_t>, 3> order = {};

  /// Extents in the order (first, second, spatial…).
  Dims extents(size_t array) const {
    Dims all = {batch, in_features};
    if (array == 1) all = {in_features / feature_groups, out_features};
    if (array == 2) all = {batch / batch_groups, out_features};
    for (const Spatial& s : spatial) {
      const std::array along = {s.in, s.taps, s.out()};
      all.push_back(along.at(array));
    }
    return all;
  }
  std::string shape(size_t array) const {
    std::string text;
    for (const size_t d : order.at(array))
      text += (text.empty() ? "" : ",") + std::to_string(extents(array)[d]);
    return types.at(array) + "[" + text + "]";
  }
  std::string labels(size_t array) const {
    std::string names = array == 1 ? "io" : "bf";
    for (size_t d = 0; d < spatial.size(); ++d) names += std::to_string(d);
    std::string text;
    for (const size_t d : order.at(array)) text += names[d];
    return text;
  }
  std::string window() const {
    std::array<std::string, 6> parts;
    for (const Spatial& s : spatial) {
      const std::array values = {
          std::to_string(s.taps),
          std::to_string(s.stride),
          std::to_string(s.low) + "_" + std::to_string(s.high),
          std::to_string(s.base),
          std::to_string(s.dilation),
          std::to_string(static_cast<int>(s.reversed))};
      for (size_t k = 0; k < parts.size(); ++k)
        parts.at(k) += (parts.at(k).empty() ? "" : "x") + values.at(k);
    }
    return "{size=" + parts[0] + " stride=" + parts[1] + " pad=" + parts[2] +
           " lhs_dilate=" + parts[3] + " rhs_dilate=" + parts[4] +
           " rhs_reversal=" + parts[5] + "}";
  }
  std::string hlo() const {
    return "HloModule m\nENTRY e {\n  x = " + shape(0) +
           " parameter(0)\n  w = " + shape(1) +
           " parameter(1)\n  ROOT c = " + shape(2) +
           " convolution(x, w), window=" + window() +
           ", dim_labels=" + labels(0) + "_" + labels(1) + "->" + labels(2) +
           ", feature_group_count=" + std::to_string(feature_groups) +
           ", batch_group_count=" + std::to_string(batch_groups) + "\n}\n";
  }
  /// Strides in elements, in the order (first, second, spatial…).
  Dims strides(size_t array) const {
    Dims all(spatial.size() + 2);
    int64_t stride = 1;
    for (size_t k = order.at(array).size(); k-- > 0;) {
      all[order.at(array)[k]] = stride;
      stride *= extents(array)[order.at(array)[k]];
    }
    return all;
  }
};

int64_t count(const Dims& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1},
                         std::multiplies<>());
}

struct Sum {
  double value = 0, magnitude = 0;
};

/// out[n, o, p] = sum over i, t of x[n', i', p * stride + t * dilation - low]
/// * w[i, o, t]; with groups, x's features, or images, are those of o's group.
class Definition {
 public:
  Definition(const Case& c, const std::vector<double>& x,
             const std::vector<double>& w)
      : c_(c), x_(x), w_(w), xs_(c.strides(0)), ws_(c.strides(1)) {}

  /// `at`: (image, feature, spatial…).
  Sum operator()(const IndexCounter& at) const {
    const int64_t features = c_.in_features / c_.feature_groups;
    const int64_t group =
        at[1] / (c_.out_features / (c_.feature_groups * c_.batch_groups));
    const int64_t image =
        at[0] + (c_.batch_groups > 1 ? group * c_.batch / c_.batch_groups : 0);
    const int64_t first = c_.feature_groups > 1 ? group * features : 0;
    Dims taps = {features};
    for (const Spatial& s : c_.spatial) taps.push_back(s.taps);
    IndexCounter tap(taps);
    Sum sum;
    do {
      int64_t from = image * xs_[0] + (first + tap[0]) * xs_[1];
      int64_t by = tap[0] * ws_[0] + at[1] * ws_[1];
      if (!add_spatial(at, tap, &from, &by)) continue;
      const double term =
          x_[static_cast<size_t>(from)] * w_[static_cast<size_t>(by)];
      sum.value += term;
      sum.magnitude += std::fabs(term);
    } while (tap.next());
    return sum;
  }

 private:
  bool add_spatial(const IndexCounter& at, const IndexCounter& tap,
                   int64_t* from, int64_t* by) const {
    for (size_t d = 0; d < c_.spatial.size(); ++d) {
      const Spatial& s = c_.spatial[d];
      const int64_t place =
          at[d + 2] * s.stride + tap[d + 1] * s.dilation - s.low;
      if (place < 0 || place % s.base != 0 || place / s.base >= s.in)
        return false;
      *from += place / s.base * xs_[d + 2];
      *by += (s.reversed ? s.taps - 1 - tap[d + 1] : tap[d + 1]) * ws_[d + 2];
    }
    return true;
  }

  const Case& c_;
  const std::vector<double>&x_, &w_;
  Dims xs_, ws_;
};

/// Values that the type holds, and their bytes.
std::vector<double> draw(std::mt19937* random, PrimitiveType type,
                         std::vector<std::byte>* bytes) {
  const auto size = static_cast<size_t>(primitive_type_bits(type)) / 8;
  std::vector<double> values(bytes->size() / size);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] =
        round_to_layout(uniform(*random), float_layout(type), /*flushes=*/true);
    const uint64_t bits = bits_of_element(type, values[i]);
    std::memcpy(bytes->data() + i * size, &bits, size);
  }
  return values;
}

/// A convolution over memory of its own.
struct Bound {
  Result<InlinedModule> module;
  std::array<std::vector<std::byte>, 3> arrays = {};
  RoutineSpec spec = {};

  explicit Bound(const Case& c) : module(parse_inlined(c.hlo())) {
    if (!module) return;
    for (size_t k = 0; k < 3; ++k) {
      arrays.at(k).resize(static_cast<size_t>(count(c.extents(k))) *
                          element_bytes(shape(k)));
    }
  }
  const Instruction& root() const {
    const Computation& entry = module->entry_computation();
    return entry.at(entry.root);
  }
  const Shape& shape(size_t array) const {
    const Computation& entry = module->entry_computation();
    return array == 2 ? root().shape
                      : entry.at(root().operands.at(array)).shape;
  }
  RoutineCall call(RoutineScratch* scratch, const SharedWork& team = {}) {
    return {.entry = module->entry_computation(),
            .instruction = root(),
            .spec = spec,
            .operands = {arrays[0], arrays[1]},
            .results = {arrays[2]},
            .workspace = {},
            .kernels = {},
            .scratch = scratch,
            .team = team};
  }

  /// The result of each of some runs of the routine.
  std::vector<std::vector<std::byte>> run(int runs, const SharedWork& team) {
    RoutineScratch scratch;
    const auto routine = make_convolution(call(&scratch, team));
    EXPECT_TRUE(routine);
    std::vector<std::byte> block(scratch.size_bytes() +
                                 RoutineScratch::kAlignment);
    void* aligned = block.data();
    size_t space = block.size();
    std::align(RoutineScratch::kAlignment, scratch.size_bytes(), aligned,
               space);
    scratch.place(static_cast<std::byte*>(aligned));
    std::vector<std::vector<std::byte>> results;
    while (results.size() < static_cast<size_t>(runs)) {
      std::memset(scratch.data(), 0xff, scratch.size_bytes());
      std::fill(arrays[2].begin(), arrays[2].end(), std::byte{0xff});
      EXPECT_TRUE((*routine)->run());
      results.push_back(arrays[2]);
    }
    return results;
  }
};

/// True where oneDNN computed it.
bool check(const Case& c, uint32_t seed) {
  Bound convolution(c);
  if (!convolution.module) {
    ADD_FAILURE() << convolution.module.error().message;
    return false;
  }
  auto& arrays = convolution.arrays;
  const PrimitiveType type = convolution.shape(2).type;
  const size_t size = element_bytes(convolution.shape(2));
  std::mt19937 random(seed);
  const std::vector<double> x =
      draw(&random, convolution.shape(0).type, &arrays[0]);
  const std::vector<double> w =
      draw(&random, convolution.shape(1).type, &arrays[1]);
  RoutineScratch scratch;
  const RoutineCall call = convolution.call(&scratch);
  const Result<ConvolutionGeometry> geometry = convolution_geometry(call);
  EXPECT_TRUE(geometry);
  const bool by_library = make_library_convolution(call, *geometry) != nullptr;
  const auto alone = convolution.run(2, {});
  EXPECT_TRUE(alone[0] == alone[1]) << "other bits in the second run";
  // In parts and whole by turns.
  ThreadTeam team(3, [] {});
  const StepTrial steps;
  PartTrials trials;
  for (const auto& shared : convolution.run(4, {&team, 0, &steps, &trials}))
    EXPECT_TRUE(shared == alone[0]) << c.hlo() << "other bits in parts";
  const Definition definition(c, x, w);
  const Dims to = c.strides(2), extents = c.extents(2);
  const FloatLayout layout = float_layout(type);
  IndexCounter at(extents);
  do {
    const Sum want = definition(at);
    uint64_t bits = 0;
    std::memcpy(
        &bits, arrays[2].data() + static_cast<size_t>(offset_of(at, to)) * size,
        size);
    // Sums in f32 in any order: a rounding a term at most, of what has been
    // summed; then half a unit of the result's type.
    const double terms = static_cast<double>(count(c.extents(1)) + 1);
    const double bound =
        want.magnitude * terms * std::ldexp(1.0, -24) +
        std::fabs(want.value) * std::ldexp(1.0, -layout.mantissa - 1);
    if (!(std::fabs(element_of_bits(type, bits) - want.value) <= bound)) {
      ADD_FAILURE() << c.hlo() << "by " << (by_library ? "oneDNN" : "patches")
                    << ": " << element_of_bits(type, bits) << " is not "
                    << want.value << " within " << bound;
      return by_library;
    }
  } while (at.next());
  return by_library;
}

Case in_order(Case c, const std::array<std::vector<size_t>, 3>& order) {
  c.order = order;
  return c;
}
const std::array<std::vector<size_t>, 3> kChannelsLast = {
    {{0, 2, 3, 1}, {2, 3, 0, 1}, {0, 2, 3, 1}}};

template <typename T>
T pick(std::mt19937* random, std::initializer_list<T> from) {
  return from.begin()[(*random)() % from.size()];
}

Case random_case(uint32_t seed) {
  std::mt19937 random(seed);
  Case c{.batch = pick<int64_t>(&random, {1, 2, 6}),
         .in_features = pick<int64_t>(&random, {1, 3, 8, 16, 20, 34}),
         .out_features = pick<int64_t>(&random, {1, 5, 8, 16, 24, 33}),
         .spatial = {}};
  if (random() % 2 == 0) {
    c.types = {"bf16", "bf16", "bf16"};
    if (random() % 2 == 0) c.types.at(random() % 3) = "f32";
  }
  const int64_t groups = pick<int64_t>(&random, {1, 1, 1, 2, 4});
  if (random() % 3 == 0) {
    c.batch_groups = groups;
    c.batch *= groups;
  } else {
    c.feature_groups = groups;
    c.in_features *= groups;
  }
  c.out_features *= groups;
  const size_t dimensions = pick<size_t>(&random, {1, 2, 2, 2, 3});
  const int64_t form = pick<int64_t>(&random, {0, 1, 2, 3, 4});
  const auto any = [&](std::initializer_list<int64_t> from) {
    return pick<int64_t>(&random, from);
  };
  while (c.spatial.size() < dimensions) {
    Spatial s{.in = any({3, 5, 7, 9}), .taps = any({1, 2, 3})};
    if (form == 2) s.taps = s.in - any({0, 1, 2});      // By the filter.
    if (form == 4) s.taps = 2 * s.in - any({0, 1, 2});  // Of a transposed one.
    s.stride = form == 1 || form == 4 ? 1 : any({1, 1, 2});  // By the input.
    s.base = form == 0 || form == 2 ? 1 : any({1, 2});
    s.dilation = form == 4 ? 1 : any({1, 1, 2});
    s.low = any({0, 1, 2});
    s.high = any({0, 1, 2});
    if (form == 3 && random() % 4 == 0) s.low = -1;
    s.reversed = form != 2 && form != 4 && random() % 2 == 0;
    while ((s.in - 1) * s.base + s.low + s.high < (s.taps - 1) * s.dilation)
      ++s.high;
    c.spatial.push_back(s);
  }
  for (auto& order : c.order) {
    order.resize(dimensions + 2);
    std::iota(order.begin(), order.end(), size_t{0});
    if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  }
  return c;
}

TEST(Convolution, OfAnyFormIsItsDefinition) {
  int by_library = 0;
  for (uint32_t seed = 0; seed < 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    by_library += static_cast<int>(check(random_case(seed), seed));
  }
  RecordProperty("by_library", by_library);
}

/// As a training step of images has them, channels last.
TEST(Convolution, OfTrainingIsOneDnns) {
  const Spatial same{.in = 16, .taps = 3, .low = 1, .high = 1};
  const Spatial halved{.in = 16, .taps = 3, .stride = 2, .low = 0, .high = 1};
  const Spatial of_halved{
      .in = 8, .taps = 3, .low = 2, .high = 1, .base = 2, .reversed = true};
  const Spatial of_filter{.in = 16, .taps = 16, .low = 1, .high = 1};
  const Spatial of_strided{.in = 16, .taps = 8, .high = 1, .dilation = 2};
  const Spatial of_doubled{.in = 8, .taps = 16, .low = 2, .high = 1, .base = 2};
  for (const Spatial& s :
       {same, halved, of_halved, of_filter, of_strided, of_doubled}) {
    const Case c{
        .batch = 4, .in_features = 16, .out_features = 32, .spatial = {s, s}};
    EXPECT_TRUE(check(in_order(c, kChannelsLast), 1)) << c.window();
  }
}

/// What threads share, by what is cut: images, features or groups.
TEST(Convolution, OfTrainingIsShared) {
  const Spatial same{.in = 16, .taps = 3, .low = 1, .high = 1};
  const Spatial by_input{
      .in = 16, .taps = 3, .low = 1, .high = 1, .reversed = true};
  const Spatial by_filter{.in = 16, .taps = 16, .low = 1, .high = 1};
  const Case forward{
      .batch = 4, .in_features = 16, .out_features = 64, .spatial = {}};
  Case image = forward, depthwise = forward, filter_of_groups = forward;
  image.batch = 1;
  depthwise.batch = 1;
  depthwise.feature_groups = depthwise.in_features = 64;
  filter_of_groups.batch_groups = 64;
  filter_of_groups.batch = 64;
  for (auto [c, along] :
       {std::pair(forward, same), std::pair(forward, by_input),
        std::pair(image, same), std::pair(forward, by_filter),
        std::pair(depthwise, same), std::pair(filter_of_groups, by_filter)}) {
    c.spatial = {along, along};
    c = in_order(c, kChannelsLast);
    SCOPED_TRACE(c.hlo());
    Bound bound(c);
    ASSERT_TRUE(bound.module) << bound.module.error().message;
    ThreadTeam team(2, [] {});
    const StepTrial steps;
    PartTrials trials;
    RoutineScratch scratch;
    const RoutineCall call = bound.call(&scratch, {&team, 0, &steps, &trials});
    EXPECT_TRUE(make_convolution(call));
    const auto problem = convolution_problem(call, *convolution_geometry(call));
    ASSERT_TRUE(problem);
    EXPECT_TRUE(trials.have_its_bits(fmt::format("{} in 2", text_of(*problem)),
                                     [] { return false; }));
    EXPECT_TRUE(check(c, 1));
  }
}

}  // namespace
}  // namespace reprise
