// Convolutions by the device's library, over the fakes: what JAX computes, what
// their expansions compute, and what happens where the library refuses.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "data/hlo/window.h"
#include "tests/runtime/cpu/jax_values.h"
#include "tests/runtime/cuda/fake_cudnn.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/runtime/cuda/on_device.h"

namespace reprise {
namespace {

uint64_t convolved() {
  return fake_cudnn_launches(0) + fake_cudnn_launches(1) +
         fake_cudnn_launches(2);
}

class CudaConvolutions : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda_clear();
    fake_cudnn_refuse(false, false);
  }
  void TearDown() override {
    EXPECT_STREQ(fake_cuda_report(), "");
    EXPECT_EQ(fake_cuda_live_objects(), 0);
  }
};

bool is_convolution(const JaxCase& one) {
  return one.name.rfind("conv.", 0) == 0;
}

/// Of types that the library does not have, the host or an expansion computes.
bool is_of_the_library(const JaxCase& one) {
  return one.name.find("int") == std::string::npos &&
         one.name.find("complex") == std::string::npos;
}

TEST_F(CudaConvolutions, AgreeWithJaxAsGraphs) {
  size_t run = 0;
  std::array<uint64_t, 3> before{};
  for (int form = 0; form < 3; ++form)
    before[static_cast<size_t>(form)] = fake_cudnn_launches(form);
  for (const JaxCase& one : jax_cases()) {
    if (!is_convolution(one)) continue;
    SCOPED_TRACE(one.name);
    const uint64_t convolved_before = convolved();
    const auto alone = make_solo_device_communicator();
    const auto on = put_on_device(one.hlo, *alone, {}, 1, /*cudnn=*/true);
    expect_as_in_jax(one, *on);
    if (HasFatalFailure()) return;
    if (is_of_the_library(one)) {
      EXPECT_GT(convolved(), convolved_before);
      EXPECT_TRUE(on->executor->replays_graph());
      ++run;
    }
  }
  EXPECT_GT(run, 35U);
  for (int form = 0; form < 3; ++form) {
    EXPECT_GT(fake_cudnn_launches(form), before[static_cast<size_t>(form)])
        << "form " << form;
  }
}

/// A convolution in HLO with windows, groups and orders of dimensions drawn.
class DrawnConvolution {
 public:
  explicit DrawnConvolution(uint64_t seed) : random_(seed) {
    places_ = draw(1, 3);
    const int kind = draw(0, 3);
    images_ = draw(1, 3);
    inputs_ = draw(1, 3);
    outputs_ = draw(1, 3);
    if (kind == 2) groups_ = draw(2, 3);
    batch_groups_ = kind == 3 ? draw(2, 3) : 1;
    for (int d = 0; d < places_; ++d) {
      WindowDimension w;
      w.size = draw(1, 4);
      w.stride = kind == 1 ? 1 : draw(1, 3);
      w.base_dilation = kind == 1 ? draw(1, 3) : 1;
      w.window_dilation = draw(1, 3);
      w.padding_low = draw(-1, 5);
      w.padding_high = draw(-1, 5);
      w.reversal = kind == 3 ? 0 : draw(0, 1);
      const int64_t reach = (w.size - 1) * w.window_dilation + 1;
      int64_t extent = draw(1, 7), room = 0;
      for (;; ++extent) {
        room = (extent - 1) * w.base_dilation + 1 + w.padding_low +
               w.padding_high - reach;
        if (room >= 0 && extent + std::min<int64_t>(w.padding_low, 0) +
                                 std::min<int64_t>(w.padding_high, 0) >
                             0)
          break;
      }
      window_.push_back(w);
      extents_.push_back(extent);
      results_.push_back(room / w.stride + 1);
    }
  }

  std::string hlo() {
    const auto joined = [&](auto field) {
      std::vector<std::string> all;
      for (const WindowDimension& w : window_) all.push_back(field(w));
      return fmt::format("{}", fmt::join(all, "x"));
    };
    std::string window = "size=" + joined([](const auto& w) {
                           return fmt::format("{}", w.size);
                         });
    window += " stride=" +
              joined([](const auto& w) { return fmt::format("{}", w.stride); });
    window += " pad=" + joined([](const auto& w) {
                return fmt::format("{}_{}", w.padding_low, w.padding_high);
              });
    window += " lhs_dilate=" + joined([](const auto& w) {
                return fmt::format("{}", w.base_dilation);
              });
    window += " rhs_dilate=" + joined([](const auto& w) {
                return fmt::format("{}", w.window_dilation);
              });
    window += " rhs_reversal=" + joined([](const auto& w) {
                return fmt::format("{}", w.reversal);
              });
    std::vector<int64_t> taps;
    for (const WindowDimension& w : window_) taps.push_back(w.size);
    const int64_t groups = groups_ * batch_groups_;
    const auto [lhs, lhs_labels] =
        array('b', images_ * batch_groups_, 'f', inputs_ * groups_, extents_);
    const auto [rhs, rhs_labels] =
        array('i', inputs_, 'o', outputs_ * groups, taps);
    const auto [out, out_labels] =
        array('b', images_, 'f', outputs_ * groups, results_);
    elements_ = {product_of(lhs), product_of(rhs)};
    return fmt::format(
        "HloModule m\nENTRY e {{\n a = f32[{0}] parameter(0)\n"
        " b = f32[{1}] parameter(1)\n ROOT c = f32[{2}] convolution(a, b), "
        "window={{{3}}}, dim_labels={4}_{5}->{6}, feature_group_count={7}, "
        "batch_group_count={8}\n}}\n",
        fmt::join(lhs, ","), fmt::join(rhs, ","), fmt::join(out, ","), window,
        lhs_labels, rhs_labels, out_labels, groups_, batch_groups_);
  }

  /// Of the operands of the last `hlo`, small integers: sums are exact.
  std::vector<std::vector<float>> values() {
    std::vector<std::vector<float>> all;
    for (const int64_t count : elements_) {
      std::vector<float>& one = all.emplace_back();
      for (int64_t i = 0; i < count; ++i)
        one.push_back(static_cast<float>(draw(-8, 8)));
    }
    return all;
  }

 private:
  int draw(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  static int64_t product_of(const std::vector<int64_t>& extents) {
    return std::accumulate(extents.begin(), extents.end(), int64_t{1},
                           std::multiplies<>());
  }
  std::pair<std::vector<int64_t>, std::string> array(
      char first, int64_t first_extent, char second, int64_t second_extent,
      const std::vector<int64_t>& places) {
    std::vector<std::pair<char, int64_t>> all = {{first, first_extent},
                                                 {second, second_extent}};
    for (size_t d = 0; d < places.size(); ++d)
      all.emplace_back(static_cast<char>('0' + d), places[d]);
    std::shuffle(all.begin(), all.end(), random_);
    std::vector<int64_t> extents;
    std::string labels;
    for (const auto& [label, extent] : all) {
      labels += label;
      extents.push_back(extent);
    }
    return {extents, labels};
  }

  std::mt19937_64 random_;
  int places_ = 2, images_ = 1, inputs_ = 1, outputs_ = 1;
  int groups_ = 1, batch_groups_ = 1;
  std::vector<WindowDimension> window_;
  std::vector<int64_t> extents_, results_, elements_;
};

std::vector<std::byte> run_once(const std::string& hlo,
                                const std::vector<std::vector<float>>& inputs,
                                bool cudnn) {
  const auto alone = make_solo_device_communicator();
  const auto on = put_on_device(hlo, *alone, {}, 1, cudnn);
  EXPECT_NE(on->executor, nullptr);
  if (on->executor == nullptr) return {};
  for (size_t n = 0; n < inputs.size(); ++n)
    on->feed(static_cast<int64_t>(n), inputs[n]);
  const Status done = on->executor->run_step(0);
  EXPECT_TRUE(done) << done.error().message;
  return on->output(0);
}

TEST_F(CudaConvolutions, AnyIsWhatItsExpansionIs) {
  constexpr uint64_t kDrawn = 60;
  const uint64_t before = convolved();
  for (uint64_t seed = 0; seed < kDrawn; ++seed) {
    DrawnConvolution drawn(seed);
    const std::string hlo = drawn.hlo();
    SCOPED_TRACE(hlo);
    const auto inputs = drawn.values();
    // In one order of dimensions, then in the other.
    const auto expanded = run_once(hlo, inputs, false);
    fake_cudnn_refuse(seed % 2 == 0, seed % 2 == 1);
    EXPECT_EQ(run_once(hlo, inputs, true), expanded);
  }
  EXPECT_GT(convolved() - before, kDrawn * 9 / 10);
}

TEST_F(CudaConvolutions, OneThatTheLibraryRefusesIsExpanded) {
  fake_cudnn_refuse(true, true);
  DrawnConvolution drawn(1);
  const std::string hlo = drawn.hlo();
  const auto inputs = drawn.values();
  const uint64_t before = convolved();
  EXPECT_EQ(run_once(hlo, inputs, true), run_once(hlo, inputs, false));
  EXPECT_EQ(convolved(), before);
}

}  // namespace
}  // namespace reprise
