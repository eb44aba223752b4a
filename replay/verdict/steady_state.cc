#include "replay/verdict/steady_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "data/median.h"

namespace reprise {
namespace {

constexpr size_t kBatch = 5;  // MSER-5's.

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

/// Medians of whole batches, in order.
std::vector<double> batches_of(std::span<const double> values) {
  std::vector<double> batches;
  for (size_t i = 0; i + kBatch <= values.size(); i += kBatch) {
    const std::span<const double> batch = values.subspan(i, kBatch);
    batches.push_back(median(std::vector<double>(batch.begin(), batch.end())));
  }
  return batches;
}

/// How values vary, and over how many of them they remember one another: half
/// of one where not at all.
struct Memory {
  double variance = 0, length = 0.5;
};

Memory memory_of(std::span<const double> values) {
  const size_t count = values.size();
  const double mean = mean_of(values);
  const auto covariance = [&](size_t lag) {
    double sum = 0;
    for (size_t i = lag; i < count; ++i) {
      sum += (values[i] - mean) * (values[i - lag] - mean);
    }
    return sum;
  };
  const double squares = covariance(0);
  Memory memory;
  memory.variance = squares / static_cast<double>(count);
  constexpr size_t kMostLags = 1000;
  for (size_t lag = 1; lag < std::min(count / 4, kMostLags); ++lag) {
    const double share = squares > 0 ? covariance(lag) / squares : 0;
    if (share <= 0) break;
    memory.length += share;
  }
  return memory;
}

}  // namespace

size_t warmup_steps(std::span<const double> step_ns) {
  const std::vector<double> batches = batches_of(step_ns);
  // Sums over what is left behind each cut, from the back.
  double sum = 0, squares = 0, least = std::numeric_limits<double>::infinity();
  size_t best = 0;
  const double middle = batches.empty() ? 0 : mean_of(batches);
  for (size_t cut = batches.size(); cut-- > 0;) {
    const double value = batches[cut] - middle;
    sum += value;
    squares += value * value;
    const auto left = static_cast<double>(batches.size() - cut);
    if (2 * cut > batches.size() || left < 3) continue;
    const double error = (squares - sum * sum / left) / (left * left);
    if (error <= least) {
      least = error;
      best = cut;
    }
  }
  if (best == 0) return 0;
  // What is cut is slower than most of what follows, or it is no warm-up.
  const auto cut = batches.begin() + static_cast<std::ptrdiff_t>(best);
  const double first = median(std::vector<double>(batches.begin(), cut));
  std::vector<double> rest(cut, batches.end());
  const size_t quarter = rest.size() / 4;
  const double slow =
      value_at(std::move(rest), batches.size() - best - 1 - quarter);
  return first > slow ? best * kBatch : 0;
}

double trimmed_mean(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto cut =
      static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  const auto first = values.begin() + cut, last = values.end() - cut;
  std::nth_element(values.begin(), first, values.end());
  if (last != values.end()) std::nth_element(first, last, values.end());
  return std::accumulate(first, last, 0.0) / static_cast<double>(last - first);
}

double pace_variance(const std::vector<std::span<const double>>& runs) {
  std::vector<std::vector<double>> paces, at_place;
  for (const std::span<const double> run : runs) {
    std::vector<double> pace = batches_of(run);
    if (pace.size() < 4) continue;
    const double level = std::log(median(pace));
    at_place.resize(std::max(at_place.size(), pace.size()));
    for (size_t i = 0; i < pace.size(); ++i) {
      pace[i] = std::log(pace[i]) - level;
      at_place[i].push_back(pace[i]);
    }
    paces.push_back(std::move(pace));
  }
  std::vector<double> usual;
  usual.reserve(at_place.size());
  for (std::vector<double>& place : at_place) {
    usual.push_back(median(std::move(place)));
  }
  double sum = 0;
  for (std::vector<double>& pace : paces) {
    for (size_t i = 0; i < pace.size(); ++i) pace[i] -= usual[i];
    const Memory memory = memory_of(pace);
    sum += memory.variance * 2 * memory.length /
           static_cast<double>(pace.size() - 1);
  }
  return paces.empty() ? 0 : sum / static_cast<double>(paces.size());
}

size_t block_length(std::span<const double> values) {
  const size_t count = values.size();
  if (count < 8) return 1;
  const auto root =
      static_cast<size_t>(std::ceil(std::cbrt(static_cast<double>(count))));
  const size_t most = std::max(count / 4, root);
  // Not a number where the values are too large to be squared.
  const double wanted = std::ceil(4 * memory_of(values).length);
  if (!(wanted < static_cast<double>(most))) return most;
  return std::max(static_cast<size_t>(std::max(wanted, 0.0)), root);
}

}  // namespace reprise
