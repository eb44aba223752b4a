// Threads share a convolution by images, groups or features of what is written,
// never along a sum, and where made-up arrays show the bits of the whole.
#include "runtime/cpu/library_convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cpu/bound_convolution.h"
#include "runtime/cpu/convolution_parts.h"
#include "runtime/cpu/convolution_problem.h"
#include "runtime/cpu/routine_scratch.h"

namespace reprise {
namespace {

/// All that binds a convolution of one shape.
struct Convolved {
  const ConvolutionGeometry& geometry;
  const Shape& filter;

  std::optional<BoundConvolution> bind(const ConvolutionProblem& problem,
                                       const ConvolutionMemory& memory) const {
    return BoundConvolution::bind(problem, memory, geometry, filter);
  }
  /// None unless all are.
  std::vector<BoundConvolution> bind(
      const std::vector<ConvolutionPart>& parts) const {
    std::vector<BoundConvolution> bound;
    for (const ConvolutionPart& part : parts) {
      std::optional<BoundConvolution> one = bind(part.problem, part.memory);
      if (!one) return {};
      bound.push_back(*std::move(one));
    }
    return bound;
  }

  /// On made-up arrays: whether parts give the bits of the whole.
  bool parts_have_its_bits(const ConvolutionProblem& problem,
                           size_t count) const {
    TrialArrays arrays(problem);
    const auto run = [](BoundConvolution* bound) {
      std::vector<std::byte> scratch(bound->scratch_bytes() +
                                     RoutineScratch::kAlignment);
      void* block = scratch.data();
      size_t space = scratch.size();
      return bound->run(static_cast<std::byte*>(std::align(
          RoutineScratch::kAlignment, bound->scratch_bytes(), block, space)));
    };
    std::optional<BoundConvolution> whole = bind(problem, arrays.memory());
    if (!whole || !run(&*whole)) return false;
    const std::vector<std::byte> expected = arrays.take_written();
    std::vector<BoundConvolution> parts =
        bind(split_convolution(problem, arrays.memory(), count));
    return !parts.empty() &&
           std::all_of(parts.begin(), parts.end(),
                       [&](BoundConvolution& part) { return run(&part); }) &&
           arrays.take_written() == expected;
  }
};

class LibraryConvolution final : public Routine {
 public:
  LibraryConvolution(RoutineScratch* scratch, BoundConvolution whole)
      : scratch_(*scratch), whole_(std::move(whole)) {
    scratch->reserve(whole_.scratch_bytes());
  }

  void share(const SharedWork& work, std::vector<BoundConvolution> parts,
             RoutineScratch* scratch) {
    parts_ = std::move(parts);
    shared_ = SharedParts(work, parts_.size());
    size_t end = 0;
    for (const BoundConvolution& part : parts_) {
      begins_.push_back(end);
      end += part.scratch_bytes();
    }
    scratch->reserve(end);
  }

  bool run() override {
    return shared_.run(
        [&] { return whole_.run(scratch_.data()); },
        [&](size_t part) {
          return parts_[part].run(scratch_.data() + begins_[part]);
        });
  }

 private:
  const RoutineScratch& scratch_;
  BoundConvolution whole_;
  SharedParts shared_;
  std::vector<BoundConvolution> parts_;
  std::vector<size_t> begins_;  ///< [part] In the scratch.
};

ConvolutionMemory memory_of(const RoutineCall& call, ConvolutionForm form) {
  std::byte *in = call.operands[0].data(), *kernel = call.operands[1].data(),
            *out = call.results[0].data();
  switch (form) {
    case ConvolutionForm::kForward:
      return {.image = in, .filter = kernel, .result = out};
    case ConvolutionForm::kByInput:
      return {.image = out, .filter = kernel, .result = in};
    case ConvolutionForm::kByFilter:
      return {.image = in, .filter = out, .result = kernel};
    case ConvolutionForm::kByTransposedFilter:
      return {.image = kernel, .filter = out, .result = in};
  }
  return {};
}

/// A part has copies of its own in oneDNN's layouts, so that a small
/// convolution would take more memory than the time it gains is worth.
constexpr double kWorthCopies = 5;

double flops_of(const ConvolutionGeometry& g) {
  const auto depth = static_cast<double>(g.feature.extent * g.taps());
  return 2 * depth * static_cast<double>(g.batch.extent * g.positions()) *
         static_cast<double>(g.out_feature.extent * g.groups);
}

}  // namespace

std::unique_ptr<Routine> make_library_convolution(
    const RoutineCall& call, const ConvolutionGeometry& geometry) {
  try {
    const std::optional<ConvolutionProblem> problem =
        convolution_problem(call, geometry);
    if (!problem) return nullptr;
    const Convolved convolved{geometry, problem->is_by_filter()
                                            ? call.result_shape(0)
                                            : call.operand_shape(1)};
    const ConvolutionMemory memory = memory_of(call, problem->form);
    auto whole = convolved.bind(*problem, memory);
    if (!whole) return nullptr;
    auto made =
        std::make_unique<LibraryConvolution>(call.scratch, *std::move(whole));
    const size_t count = call.team.parts(
        flops_of(geometry) / SharedWork::kDotFlopsPerNs / kWorthCopies,
        SIZE_MAX);
    const auto parts = split_convolution(*problem, memory, count);
    if (parts.size() > 1 &&
        call.team.trials->have_its_bits(
            fmt::format("{} in {}", text_of(*problem), count),
            [&] { return convolved.parts_have_its_bits(*problem, count); }))
      made->share(call.team, convolved.bind(parts), call.scratch);
    return made;
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace reprise
