// Shapes, names, strings and shardings of HLO protos.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "data/hlo/module.h"
#include "data/hlo/proto/hlo_proto_mesh.h"
#include "data/hlo/proto/hlo_proto_text.h"

namespace reprise {
namespace {

constexpr int kMaxTupleNesting = 100;

/// PrimitiveType of xla_data.proto.
constexpr std::array<std::pair<int64_t, std::string_view>, 31> kTypes = {{
    {1, "pred"},        {26, "s2"},
    {27, "u2"},         {21, "s4"},
    {2, "s8"},          {3, "s16"},
    {4, "s32"},         {5, "s64"},
    {22, "u4"},         {6, "u8"},
    {7, "u16"},         {8, "u32"},
    {9, "u64"},         {10, "f16"},
    {16, "bf16"},       {11, "f32"},
    {12, "f64"},        {19, "f8e5m2"},
    {20, "f8e4m3fn"},   {23, "f8e4m3b11fnuz"},
    {24, "f8e5m2fnuz"}, {25, "f8e4m3fnuz"},
    {28, "f8e4m3"},     {29, "f8e3m4"},
    {32, "f4e2m1fn"},   {33, "f8e8m0fnu"},
    {15, "c64"},        {18, "c128"},
    {17, "token"},      {14, "opaque"},
    {13, ""},  // Tuple.
}};
constexpr int64_t kTuple = 13;

std::optional<std::string_view> type_name(int64_t type) {
  for (const auto& [number, name] : kTypes) {
    if (number == type) return name;
  }
  return std::nullopt;
}

void append_layout(const ProtoMessage& layout, std::string& out) {
  std::string suffix;
  const std::vector<std::string_view> tiles = layout.all_bytes(6);
  if (!tiles.empty()) suffix += 'T';
  for (const std::string_view tile : tiles) {
    std::vector<std::string> extents;
    for (const int64_t extent : ProtoMessage(tile).integers(1)) {
      // The mark of a combined dimension.
      const bool combined = extent == std::numeric_limits<int64_t>::min();
      extents.push_back(combined ? "*" : std::to_string(extent));
    }
    suffix += fmt::format("({})", fmt::join(extents, ","));
  }
  if (layout.integer(16) > 1)
    suffix += fmt::format("L({})", layout.integer(16));
  if (layout.integer(7) != 0) suffix += fmt::format("E({})", layout.integer(7));
  if (layout.integer(8) != 0) suffix += fmt::format("S({})", layout.integer(8));
  const std::vector<int64_t> order = layout.integers(1);
  if (order.empty() && suffix.empty()) return;
  out += fmt::format("{{{}{}{}}}", fmt::join(order, ","),
                     suffix.empty() ? "" : ":", suffix);
}

Status append_array(const ProtoMessage& shape, std::string_view type,
                    bool with_layout, std::string& out) {
  const std::vector<int64_t> extents = shape.integers(3);
  std::vector<bool> dynamic;
  const std::vector<int64_t> flags = shape.integers(6);
  out += type;
  out += '[';
  for (size_t i = 0; i < extents.size(); ++i) {
    if (i > 0) out += ',';
    const bool bounded = i < flags.size() && flags[i] != 0;
    if (bounded) out += extents[i] < 0 ? "?" : "<=";
    if (!bounded || extents[i] >= 0) out += std::to_string(extents[i]);
  }
  out += ']';
  if (with_layout && shape.has(5)) {
    append_layout(ProtoMessage(shape.bytes(5)), out);
  }
  return {};
}

Status append_nested(std::string_view proto, bool with_layout, int depth,
                     std::string& out) {
  if (depth > kMaxTupleNesting) {
    return fail(ErrorKind::kParse, "tuple shape nests deeper than {} levels",
                kMaxTupleNesting);
  }
  const ProtoMessage shape(proto);
  if (shape.damaged()) return fail(ErrorKind::kParse, "a shape is damaged");
  const auto type = type_name(shape.integer(2));
  if (!type) {
    return fail(ErrorKind::kUnsupported, "element type {} of a shape",
                shape.integer(2));
  }
  if (shape.integer(2) != kTuple) {
    return append_array(shape, *type, with_layout, out);
  }
  out += '(';
  size_t place = 0;
  for (const std::string_view element : shape.all_bytes(4)) {
    out += separator(place++);
    if (const Status nested =
            append_nested(element, with_layout, depth + 1, out);
        !nested) {
      return nested;
    }
  }
  out += ')';
  return {};
}

std::string_view sharding_word(int64_t type) {
  switch (type) {
    case 0:
      return "replicated";
    case 4:
      return "manual";
    case 5:
      return "unknown";
    case 6:
      return "unreduced";
    default:
      return "";
  }
}

/// Of a sharding into tiles: `devices=[2,1]0,1 last_tile_dim_replicate`.
std::string tiles_text(const ProtoMessage& sharding) {
  std::string text =
      fmt::format("devices=[{}]", fmt::join(sharding.integers(3), ","));
  const std::vector<int64_t> iota = sharding.integers(9);
  if (iota.empty()) {
    text += fmt::format("{}", fmt::join(sharding.integers(4), ","));
  } else {
    text += "<=" + transposed_text(iota, sharding.integers(10));
  }
  if (sharding.flag(6)) text += " last_tile_dim_replicate";
  const std::vector<int64_t> last = sharding.integers(8);
  if (!last.empty()) {
    std::vector<std::string_view> words;
    words.reserve(last.size());
    for (const int64_t type : last) words.push_back(sharding_word(type));
    text += fmt::format(" last_tile_dims={{{}}}", fmt::join(words, ", "));
  }
  return text;
}

/// Of a NamedShardingProto: `mesh['a'=2,'b'=4], [{'a'}, {}]`, or
/// `mesh['a'=2], manual` where no dimension is cut.
std::string named_text(std::string_view proto) {
  const ProtoMessage sharding(proto);
  ProtoMesh mesh(sharding.bytes(2));
  std::vector<std::string> dimensions;
  for (const std::string_view bytes : sharding.all_bytes(3)) {
    const ProtoMessage dimension(bytes);
    std::string axes = mesh.axes(dimension.all_bytes(1), ", ");
    if (!dimension.flag(2)) axes += axes.empty() ? "?" : ", ?";
    dimensions.push_back("{" + axes + "}");
  }
  std::string text = mesh.text();
  if (!dimensions.empty())
    text += fmt::format(", [{}]", fmt::join(dimensions, ", "));
  constexpr std::pair<uint32_t, std::string_view> kOthers[] = {
      {4, "replicated"}, {5, "unreduced"}, {7, "manual"}};
  bool has_others = false;
  for (const auto& [field, word] : kOthers) {
    const std::string axes = mesh.axes(sharding.all_bytes(field), ", ");
    if (axes.empty()) continue;
    has_others = true;
    text += fmt::format(", {}", word);
    if (!dimensions.empty()) text += fmt::format("={{{}}}", axes);
  }
  if (dimensions.empty() && !has_others) text += ", replicated";
  return text;
}

std::string one_sharding(const ProtoMessage& sharding) {
  if (sharding.has(14)) return "{" + named_text(sharding.bytes(14)) + "}";
  std::string text;
  const int64_t type = sharding.integer(1);
  if (type == 1) {
    const std::vector<int64_t> devices = sharding.integers(4);
    text = fmt::format("maximal device={}", devices.empty() ? 0 : devices[0]);
  } else if (type == 3) {
    text = tiles_text(sharding);
  } else {
    text = sharding_word(type);
  }
  if (sharding.flag(11)) {
    text += fmt::format(" {} {}", sharding.flag(13) ? "shard_like" : "shard_as",
                        sharding.integer(12));
  }
  return "{" + text + "}";
}

char escape_of(char c) {
  switch (c) {
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    case '"':
    case '\'':
    case '\\':
      return c;
    default:
      return 0;
  }
}

}  // namespace

Status append_shape_text(std::string_view proto, bool with_layout,
                         std::string& out) {
  return append_nested(proto, with_layout, 0, out);
}

std::string hlo_name(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    const bool legal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') || c == '_' || c == '.' ||
                       c == '-';
    if (!legal) c = '_';
  }
  return text.empty() ? "_" : text;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const char escape = escape_of(c)) {
      out += '\\';
      out += escape;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\{:03o}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string separator(size_t place) {
  if (place == 0) return {};
  return place % 5 == 0 ? fmt::format(", /*index={}*/", place) : ", ";
}

std::string sharding_text(std::string_view proto) {
  const ProtoMessage sharding(proto);
  if (sharding.integer(1) != 2) return one_sharding(sharding);
  std::string text = "{";
  size_t place = 0;
  for (const std::string_view element : sharding.all_bytes(5)) {
    text += separator(place++);
    text += one_sharding(ProtoMessage(element));
  }
  return text + "}";
}

std::string frontend_attributes_text(std::string_view proto) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string_view entry : ProtoMessage(proto).all_bytes(1)) {
    const ProtoMessage pair(entry);
    pairs.emplace_back(hlo_name(pair.bytes(1)), quoted(pair.bytes(2)));
  }
  if (pairs.empty()) return {};
  std::sort(pairs.begin(), pairs.end());
  std::string text = "{";
  for (const auto& [key, value] : pairs) {
    if (text.size() > 1) text += ',';
    text.append(key).append("=").append(value);
  }
  return text + "}";
}

}  // namespace reprise
