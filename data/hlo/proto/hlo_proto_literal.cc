// Literals of HLO protos as the text that XLA writes for them.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "data/hlo/proto/hlo_proto_text.h"

namespace reprise {
namespace {

/// Types of xla_data.proto whose values are spelled out.
enum Type : int64_t {
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 15,
  kBF16 = 16,
  kC128 = 18,
};

constexpr size_t kMaxRank = 64;

double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 0x1f) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 0x400, exponent - 25);
}

double from_bfloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// Not-a-number and infinities, which all types spell alike.
std::optional<std::string> special_text(double value) {
  if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return std::nullopt;
}

/// As XLA does: the digits that the type surely holds, and if these do not read
/// back to the same value, the digits that surely tell it. `Read` turns text
/// into the type's nearest value.
template <typename Read>
std::string decimal_text(double value, int few, int many, Read read) {
  if (auto special = special_text(value)) return *special;
  const std::string text = fmt::format("{:.{}g}", value, few);
  return read(text.c_str()) == value ? text
                                     : fmt::format("{:.{}g}", value, many);
}

std::string float_text(float value) {
  return decimal_text(value, 6, 9, [](const char* text) {
    return static_cast<double>(std::strtof(text, nullptr));
  });
}

std::string double_text(double value) {
  return decimal_text(value, 15, 17, [](const char* text) {
    return std::strtod(text, nullptr);
  });
}

/// Of a type of 16 bits: the digits that surely tell it, always.
std::string narrow_text(double value, int digits) {
  if (auto special = special_text(value)) return *special;
  return fmt::format("{:.{}g}", value, digits);
}

/// The values of a literal, wherever its type keeps them, in order.
class Values {
 public:
  Values(const ProtoMessage& literal, int64_t type) : type_(type) {
    switch (type) {
      case kPred:
        integers_ = literal.integers(2);
        break;
      case kS32:
        integers_ = literal.integers(4);
        break;
      case kS64:
        integers_ = literal.integers(5);
        break;
      case kU32:
        integers_ = literal.integers(6);
        break;
      case kU64:
        integers_ = literal.integers(7);
        break;
      default:
        read_bytes(literal);
    }
  }

  bool known() const { return known_; }
  size_t size() const {
    return width_ == 0 ? integers_.size() : bytes_.size() / width_;
  }

  std::string text(size_t i) const {
    switch (type_) {
      case kPred:
        return integers_[i] != 0 ? "1" : "0";
      case kS32:
      case kS64:
        return std::to_string(integers_[i]);
      case kU32:
        return std::to_string(static_cast<uint32_t>(integers_[i]));
      case kU64:
        return std::to_string(static_cast<uint64_t>(integers_[i]));
      case kC64:
        return fmt::format("({}, {})", float_text(read<float>(i, 0)),
                           float_text(read<float>(i, 4)));
      case kC128:
        return fmt::format("({}, {})", double_text(read<double>(i, 0)),
                           double_text(read<double>(i, 8)));
      default:
        return byte_text(i);
    }
  }

 private:
  void read_bytes(const ProtoMessage& literal) {
    const auto from = [&](uint32_t field, size_t width) {
      // Packed or one by one, the same bytes.
      for (const std::string_view part : literal.all_bytes(field)) {
        bytes_ += part;
      }
      width_ = width;
    };
    switch (type_) {
      case kU8:
        return from(3, 1);
      case kS8:
        return from(15, 1);
      case kF32:
        return from(8, 4);
      case kF64:
        return from(9, 8);
      case kC64:
        return from(12, 8);
      case kC128:
        return from(18, 16);
      case kF16:
        return from(11, 2);
      case kBF16:
        return from(13, 2);
      case kU16:
        return from(16, 2);
      case kS16:
        return from(17, 2);
      default:
        known_ = false;
    }
  }

  template <typename T>
  T read(size_t i, size_t offset = 0) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * width_ + offset, sizeof(T));
    return value;
  }

  std::string byte_text(size_t i) const {
    switch (type_) {
      case kU8:
        return std::to_string(read<uint8_t>(i));
      case kS8:
        return std::to_string(read<int8_t>(i));
      case kU16:
        return std::to_string(read<uint16_t>(i));
      case kS16:
        return std::to_string(read<int16_t>(i));
      case kF16:
        return narrow_text(from_half(read<uint16_t>(i)), 5);
      case kBF16:
        return narrow_text(from_bfloat(read<uint16_t>(i)), 4);
      case kF32:
        return float_text(read<float>(i));
      default:
        return double_text(read<double>(i));
    }
  }

  int64_t type_;
  bool known_ = true;
  size_t width_ = 0;  ///< Of one value in bytes_; 0: in integers_.
  std::vector<int64_t> integers_;
  std::string bytes_;
};

/// Appends row-major `values` of the given extents, in nested braces.
void append_values(const Values& values, const std::vector<int64_t>& extents,
                   std::string& out) {
  const size_t rank = extents.size();
  std::vector<int64_t> index(rank, 0);
  out.append(rank, '{');
  for (size_t i = 0; i < values.size(); ++i) {
    out += values.text(i);
    size_t closed = 0;
    while (closed < rank &&
           ++index[rank - 1 - closed] == extents[rank - 1 - closed]) {
      index[rank - 1 - closed] = 0;
      ++closed;
    }
    out.append(closed, '}');
    if (i + 1 == values.size()) break;
    out += ", ";
    out.append(closed, '{');
  }
}

}  // namespace

Status append_literal_text(std::string_view proto, int64_t max_elements,
                           std::string& out) {
  const ProtoMessage literal(proto);
  const ProtoMessage shape(literal.bytes(1));
  if (literal.damaged() || shape.damaged()) {
    return fail(ErrorKind::kParse, "a literal is damaged");
  }
  const std::vector<int64_t> extents = shape.integers(3);
  int64_t count = 1;
  bool fits = extents.size() <= kMaxRank;
  for (const int64_t extent : extents) {
    fits =
        fits && extent >= 0 && !__builtin_mul_overflow(count, extent, &count);
  }
  if (!fits) return fail(ErrorKind::kParse, "a literal's shape overflows");
  const Values values(literal, shape.integer(2));
  if (!values.known() || count > max_elements) {
    out += "{...}";
    return {};
  }
  if (values.size() != static_cast<size_t>(count)) {
    return fail(ErrorKind::kParse, "a literal holds {} values for {}",
                values.size(), count);
  }
  if (count == 0) {
    out += "{}";
  } else if (shape.integer(2) == kPred && extents.empty()) {
    out += values.text(0) == "1" ? "true" : "false";
  } else {
    append_values(values, extents, out);
  }
  return {};
}

}  // namespace reprise
