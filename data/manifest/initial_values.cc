#include "data/manifest/initial_values.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "data/element.h"
#include "data/narrow_type.h"

namespace reprise {
namespace {

constexpr uint64_t kFirstSeed = 1000;

/// Words of names, as optax, flax, haiku, PyTorch and Keras call things.
constexpr std::array<std::string_view, 12> kMoments = {
    "mu",      "nu",       "momentum",       "momenta",
    "trace",   "velocity", "exp_avg",        "exp_avg_sq",
    "moment1", "moment2",  "sum_of_squares", "acc_grads"};
constexpr std::array<std::string_view, 2> kShortMoments = {"m", "v"};
constexpr std::array<std::string_view, 8> kZeroWords = {
    "bias", "beta", "b", "mean", "running_mean", "count", "step", "offset"};
constexpr std::array<std::string_view, 6> kOneWords = {
    "scale", "gamma", "var", "running_var", "variance", "g"};
constexpr std::array<std::string_view, 2> kRateWords = {"learning_rate", "lr"};

template <size_t N>
bool is_among(const std::array<std::string_view, N>& list,
              std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// `state['opt'][0].nu['dense']['kernel']`, and the same as XLA mangles it,
/// `state__opt___0__nu__dense____kernel__`: words of letters, digits and single
/// underscores.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    while (word.ends_with('_')) word.pop_back();
    const bool number =
        std::all_of(word.begin(), word.end(),
                    [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!number) words.push_back(word);
    word.clear();
  };
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool doubled = c == '_' && (word.empty() || word.back() == '_');
    if (doubled || (std::isalnum(c) == 0 && c != '_')) {
      end_word();
    } else {
      word.push_back(static_cast<char>(std::tolower(c)));
    }
  }
  end_word();
  return words;
}

}  // namespace

uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

float uniform_value(uint64_t seed, uint64_t i, double scale) {
  const uint64_t hash = splitmix64(splitmix64(seed) + i);
  const double unit = static_cast<double>(hash >> 40) * 0x1p-24;
  return static_cast<float>((2 * unit - 1) * scale);
}

void fill_initial(const ManifestParameter& parameter, PrimitiveType type,
                  std::span<std::byte> values) {
  const size_t size = stored_bytes(type);
  if (parameter.init == InitKind::kUniform) {
    for (size_t i = 0; i * size < values.size(); ++i) {
      const float value = uniform_value(parameter.seed, i, parameter.scale);
      store_element(type, static_cast<double>(value), &values[i * size]);
    }
    return;
  }
  const double value = parameter.init == InitKind::kOnes       ? 1
                       : parameter.init == InitKind::kConstant ? parameter.value
                                                               : 0;
  if (values.empty()) return;
  store_element(type, value, values.data());
  for (size_t at = size; at < values.size(); at += size)
    std::copy_n(values.begin(), size, values.begin() + static_cast<long>(at));
}

void guess_initial_value(const Shape& shape, ManifestParameter* parameter) {
  constexpr double kLearningRate = 1e-3;
  parameter->init = InitKind::kZeros;
  if (!is_plain_float(holding_type(shape.type))) return;
  const std::vector<std::string> words = words_of(parameter->name);
  const std::string last = words.empty() ? "" : words.back();
  const auto any_of = [&](const auto& list) {
    return std::any_of(words.begin(), words.end(),
                       [&](const auto& word) { return is_among(list, word); });
  };
  // `m.W` and `v.W`; further in they are likelier a layer's.
  const bool moment = any_of(kMoments) ||
                      (words.size() > 1 && is_among(kShortMoments, words[0]));
  if (moment || is_among(kZeroWords, last)) return;
  if (is_among(kRateWords, last)) {
    parameter->init = InitKind::kConstant;
    parameter->value = kLearningRate;
    return;
  }
  if (is_among(kOneWords, last)) {
    parameter->init = InitKind::kOnes;
    return;
  }
  if (shape.dimensions.size() < 2) return;
  const int64_t columns = std::max<int64_t>(shape.dimensions.back(), 1);
  const double fan_in =
      static_cast<double>(std::max<int64_t>(element_count(shape) / columns, 1));
  parameter->init = InitKind::kUniform;
  parameter->seed = kFirstSeed + static_cast<uint64_t>(parameter->index);
  parameter->scale = std::round(1e6 / std::sqrt(fan_in)) / 1e6;
}

uint64_t batch_hash(uint64_t seed, uint64_t step, uint64_t rank, uint64_t row) {
  return splitmix64(splitmix64(splitmix64(seed) + step) + rank * 1000003 + row);
}

}  // namespace reprise
