// rng-bit-generator with the bits that XLA makes: ThreeFry-2x32 of 20 rounds
// and Philox-4x32 of 10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011), counters laid out as xla/hlo/builder/lib/prng.cc and
// rng_bit_generator_expander.cc do. Narrower elements are low bits of 32.
#include <array>
#include <cstring>
#include <utility>

#include "runtime/cpu/array_view.h"
#include "runtime/cpu/routine.h"

namespace reprise {
namespace {

uint32_t low_word(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high_word(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
uint64_t joined(uint32_t low, uint32_t high) {
  return uint64_t{high} << 32 | low;
}

uint64_t three_fry(uint64_t counter, uint64_t key) {
  constexpr std::array<std::array<int, 4>, 2> kRotations = {
      {{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const std::array<uint32_t, 3> keys = {
      low_word(key), high_word(key),
      0x1bd11bdau ^ low_word(key) ^ high_word(key)};
  uint32_t a = low_word(counter) + keys[0], b = high_word(counter) + keys[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (const int by : kRotations[group % 2]) {
      a += b;
      b = (b << by | b >> (32 - by)) ^ a;
    }
    a += keys[(group + 1) % 3];
    b += keys[(group + 2) % 3] + group + 1;
  }
  return joined(a, b);
}

using Words = std::array<uint32_t, 4>;

Words philox(Words x, uint64_t key) {
  uint32_t first = low_word(key), second = high_word(key);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{x[0]} * 0xd2511f53u,
                   q = uint64_t{x[2]} * 0xcd9e8d57u;
    x = {high_word(q) ^ x[1] ^ first, low_word(q), high_word(p) ^ x[3] ^ second,
         low_word(p)};
    first += 0x9e3779b9u;
    second += 0xbb67ae85u;
  }
  return x;
}

class RandomBits : public Routine {
 public:
  explicit RandomBits(const RoutineCall& call)
      : state_(call.operands[0]),
        new_state_(call.results[0]),
        out_(call.results[1]),
        shape_(call.result_shape(1)),
        count_(element_count(shape_)),
        bytes_(element_bytes(shape_)) {}

 protected:
  uint64_t word(size_t place) const {
    uint64_t value = 0;
    std::memcpy(&value, state_.data() + place * sizeof value, sizeof value);
    return value;
  }
  void set_state(const std::vector<uint64_t>& words) const {
    if (!new_state_.empty())
      std::memcpy(new_state_.data(), words.data(), new_state_.size());
  }
  void put(int64_t place, uint64_t bits) const {
    if (!out_.empty()) {
      std::memcpy(out_.data() + static_cast<size_t>(place) * bytes_, &bits,
                  bytes_);
    }
  }
  size_t state_words() const { return state_.size() / sizeof(uint64_t); }

  std::span<std::byte> state_, new_state_, out_;
  Shape shape_;
  int64_t count_;
  size_t bytes_;
};

/// A dimension is halved (the first even one, or else the longest), a counter
/// gives two neighbours along it.
class ThreeFryBits final : public RandomBits {
 public:
  explicit ThreeFryBits(const RoutineCall& call) : RandomBits(call) {
    for (const int64_t extent : shape_.dimensions) {
      if (extent % 2 == 0) break;
      ++split_;
    }
    if (split_ < shape_.dimensions.size()) return;
    split_ = 0;
    for (size_t d = 1; d < shape_.dimensions.size(); ++d) {
      if (shape_.dimensions[d] > shape_.dimensions[split_]) split_ = d;
    }
  }

  bool run() override {
    const uint64_t key = word(0), first = word(1);
    if (bytes_ == 8) {
      for (int64_t i = 0; i < count_; ++i)
        put(i, three_fry(first + static_cast<uint64_t>(i), key));
      set_state({key, first + static_cast<uint64_t>(count_)});
    } else {
      set_state({key, first + narrow(first, key)});
    }
    return true;
  }

 private:
  /// Returns how many counters that took.
  uint64_t narrow(uint64_t first, uint64_t key) const {
    std::vector<int64_t> half = shape_.dimensions;
    std::vector<int64_t> strides = element_strides(shape_);
    const int64_t whole = half.empty() ? 1 : half[split_];
    int64_t step = 0;
    if (!half.empty()) {
      half[split_] = (whole + 1) / 2;
      step = strides[split_];
      strides[split_] *= 2;
    }
    IndexCounter index(half);
    uint64_t used = 0;
    do {
      const uint64_t bits = three_fry(first + used++, key);
      const int64_t place = offset_of(index, strides);
      put(place, low_word(bits));
      const bool has_second = !half.empty() && 2 * index[split_] + 1 < whole;
      if (has_second) put(place + step, high_word(bits));
    } while (index.next());
    return used;
  }

  size_t split_ = 0;
};

/// Four words a counter of 128 bits, one after the other.
class PhiloxBits final : public RandomBits {
 public:
  explicit PhiloxBits(const RoutineCall& call) : RandomBits(call) {}

  bool run() override {
    const bool is_long = state_words() >= 3;
    const uint64_t key = word(0);
    const uint64_t low = word(1), high = is_long ? word(2) : key;
    const int64_t each = bytes_ == 8 ? 2 : 4;
    const int64_t blocks = (count_ + each - 1) / each;
    for (int64_t block = 0; block < blocks; ++block) {
      const auto [at_low, at_high] =
          sum(low, high, static_cast<uint64_t>(block));
      const Words words = philox({low_word(at_low), high_word(at_low),
                                  low_word(at_high), high_word(at_high)},
                                 key);
      for (int64_t i = 0; i < each && block * each + i < count_; ++i) {
        const auto w = static_cast<size_t>(i);
        put(block * each + i,
            bytes_ == 8 ? joined(words[2 * w], words[2 * w + 1]) : words[w]);
      }
    }
    const auto [new_low, new_high] =
        sum(low, high, static_cast<uint64_t>(blocks));
    set_state({key, new_low, new_high});
    return true;
  }

 private:
  static std::pair<uint64_t, uint64_t> sum(uint64_t low, uint64_t high,
                                           uint64_t by) {
    return {low + by, high + (low + by < low ? 1 : 0)};
  }
};

}  // namespace

Result<std::unique_ptr<Routine>> make_random_bits(const RoutineCall& call) {
  const Attribute* found = call.instruction.find_attribute("algorithm");
  const auto* raw =
      found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
  const std::string algorithm = raw == nullptr ? "" : raw->text;
  const size_t words =
      call.operands.empty() ? 0 : call.operands[0].size() / sizeof(uint64_t);
  if (call.operands.size() != 1 || call.results.size() != 2 ||
      call.operand_shape(0).type != PrimitiveType::kU64 || words < 2 ||
      words > 3) {
    return fail(ErrorKind::kUnsupported,
                "random bits from a state other than u64[2] or u64[3]");
  }
  if (algorithm == "rng_three_fry" && words == 2)
    return std::make_unique<ThreeFryBits>(call);
  if (algorithm == "rng_philox" || algorithm == "rng_default")
    return std::make_unique<PhiloxBits>(call);
  return fail(ErrorKind::kUnsupported, "random bits by '{}' from {} words",
              algorithm, words);
}

}  // namespace reprise
