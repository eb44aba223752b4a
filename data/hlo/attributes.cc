// Typed views of the attributes that Reprise interprets.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "data/hlo/hlo.h"
#include "data/hlo/window.h"

namespace reprise {
namespace {

/// Most participants of a collective that are listed one by one.
constexpr int64_t kMaxParticipants = int64_t{1} << 20;
/// Largest size, stride or padding of a window; keeps products of two in 64
/// bits.
constexpr int64_t kMaxWindowValue = int64_t{1} << 30;

/// A cursor over the compact text of one attribute.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool integer(int64_t* out) {
    skip();
    const char* end = text_.data() + text_.size();
    const auto parsed = std::from_chars(text_.data() + at_, end, *out);
    if (parsed.ec != std::errc()) return false;
    at_ = static_cast<size_t>(parsed.ptr - text_.data());
    return true;
  }
  /// Integers apart by commas between `open` and `close`.
  bool list(char open, char close, std::vector<int64_t>* out) {
    if (!take(open)) return false;
    if (take(close)) return true;
    do {
      if (!integer(&out->emplace_back())) return false;
    } while (take(','));
    return take(close);
  }
  /// What stands between two of `mark`.
  bool quoted(char mark, std::string_view* out) {
    if (!take(mark)) return false;
    const size_t end = text_.find(mark, at_);
    if (end == std::string_view::npos) return false;
    *out = text_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }
  bool at_end() {
    skip();
    return at_ >= text_.size();
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (text_.substr(at_, 2) != "/*") return;
    const size_t end = text_.find("*/", at_);
    at_ = end == std::string_view::npos ? text_.size() : end + 2;
    skip();
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string_view raw_text(const Instruction& instruction,
                          std::string_view name) {
  const Attribute* found = instruction.find_attribute(name);
  if (found == nullptr) return {};
  const auto* raw = std::get_if<RawText>(&found->value);
  return raw == nullptr ? std::string_view() : std::string_view(raw->text);
}

int64_t integer_or(const Instruction& instruction, std::string_view name,
                   int64_t fallback) {
  const std::vector<int64_t> list = integer_list(instruction, name);
  return list.size() == 1 ? list[0] : fallback;
}

tl::unexpected<Error> malformed(const Instruction& instruction,
                                std::string_view name) {
  return fail(ErrorKind::kInvalid,
              "instruction `{}`: attribute {}={} is malformed",
              instruction.name, name, raw_text(instruction, name));
}

/// `[G,S]<=[d0,d1,…]T(p0,p1,…)`: iota over d, transposed by p, cut into G
/// groups of S.
struct IotaGroups {
  std::vector<int64_t> groups, dimensions, permutation;
};

bool read_iota(std::string_view text, IotaGroups* iota) {
  Reader reader(text);
  if (!reader.list('[', ']', &iota->groups) || !reader.take('<') ||
      !reader.take('='))
    return false;
  if (!reader.list('[', ']', &iota->dimensions)) return false;
  if (reader.take('T')) {
    if (!reader.list('(', ')', &iota->permutation)) return false;
  } else {
    iota->permutation.resize(iota->dimensions.size());
    std::iota(iota->permutation.begin(), iota->permutation.end(), 0);
  }
  return reader.at_end();
}

/// The product of positive factors up to kMaxParticipants, else -1.
int64_t small_product(const std::vector<int64_t>& factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor <= 0 || factor > kMaxParticipants) return -1;
    product *= factor;
    if (product > kMaxParticipants) return -1;
  }
  return product;
}

bool is_permutation_of_indices(const std::vector<int64_t>& permutation,
                               size_t size) {
  std::vector<bool> seen(size);
  for (const int64_t index : permutation) {
    if (index < 0 || static_cast<size_t>(index) >= size ||
        seen[static_cast<size_t>(index)]) {
      return false;
    }
    seen[static_cast<size_t>(index)] = true;
  }
  return permutation.size() == size;
}

bool expand_iota(const IotaGroups& iota,
                 std::vector<std::vector<int64_t>>* out) {
  const int64_t count = small_product(iota.dimensions);
  const size_t rank = iota.dimensions.size();
  if (iota.groups.size() != 2 || count < 0 ||
      small_product(iota.groups) != count)
    return false;
  if (!is_permutation_of_indices(iota.permutation, rank)) return false;
  std::vector<int64_t> strides(rank, 1);
  for (size_t i = rank; i-- > 1;)
    strides[i - 1] = strides[i] * iota.dimensions[i];
  std::vector<int64_t> index(rank, 0);
  for (int64_t position = 0; position < count; ++position) {
    if (position % iota.groups[1] == 0) out->emplace_back();
    int64_t id = 0;
    for (size_t i = 0; i < rank; ++i) {
      id += index[i] * strides[static_cast<size_t>(iota.permutation[i])];
    }
    out->back().push_back(id);
    for (size_t i = rank; i-- > 0;) {
      if (++index[i] <
          iota.dimensions[static_cast<size_t>(iota.permutation[i])])
        break;
      index[i] = 0;
    }
  }
  return true;
}

bool read_explicit_groups(std::string_view text,
                          std::vector<std::vector<int64_t>>* out) {
  Reader reader(text);
  if (!reader.take('{')) return false;
  if (reader.take('}')) return reader.at_end();
  do {
    if (!reader.list('{', '}', &out->emplace_back())) return false;
  } while (reader.take(','));
  return reader.take('}') && reader.at_end();
}

/// One axis of a mesh and the part of it that a group runs along.
struct MeshAxis {
  std::string_view name;
  int64_t size = 0;
  int64_t before = 1, along = 0;  ///< Sub-axis `:(before)along`; 0: not taken.
  size_t order = 0;               ///< Among those taken.
};

/// `mesh['a'=2,'b'=4] {'a','b':(1)2}`: devices numbered along the axes, the
/// last fastest; a group runs along those in braces.
bool read_mesh(std::string_view text, std::vector<MeshAxis>* axes) {
  constexpr std::string_view kMesh = "mesh";
  Reader reader(text.substr(kMesh.size()));
  if (!reader.take('[')) return false;
  do {
    MeshAxis& axis = axes->emplace_back();
    if (!reader.quoted('\'', &axis.name) || !reader.take('=') ||
        !reader.integer(&axis.size) || axis.size < 1)
      return false;
  } while (reader.take(','));
  if (!reader.take(']') || !reader.take('{')) return false;
  if (reader.take('}')) return reader.at_end();
  size_t taken = 0;
  do {
    std::string_view name;
    if (!reader.quoted('\'', &name)) return false;
    const auto axis =
        std::find_if(axes->begin(), axes->end(),
                     [&](const MeshAxis& a) { return a.name == name; });
    if (axis == axes->end() || axis->along != 0) return false;
    axis->along = axis->size;
    axis->order = taken++;
    if (reader.take(':') &&
        (!reader.take('(') || !reader.integer(&axis->before) ||
         !reader.take(')') || !reader.integer(&axis->along)))
      return false;
    if (axis->before < 1 || axis->along < 1 ||
        axis->size / axis->before % axis->along != 0 ||
        axis->size % axis->before != 0)
      return false;
  } while (reader.take(','));
  return reader.take('}') && reader.at_end();
}

/// The same as an iota: groups stand along what is not taken.
IotaGroups iota_of_mesh(const std::vector<MeshAxis>& axes) {
  IotaGroups iota;
  std::vector<std::pair<size_t, int64_t>> taken;  ///< Order, dimension.
  int64_t along = 1, all = 1;
  const auto add = [&](int64_t size) {
    iota.dimensions.push_back(size);
    return static_cast<int64_t>(iota.dimensions.size() - 1);
  };
  for (const MeshAxis& axis : axes) {
    all *= axis.size;
    if (axis.along == 0) {
      iota.permutation.push_back(add(axis.size));
      continue;
    }
    along *= axis.along;
    iota.permutation.push_back(add(axis.before));
    taken.emplace_back(axis.order, add(axis.along));
    iota.permutation.push_back(add(axis.size / axis.before / axis.along));
  }
  std::sort(taken.begin(), taken.end());
  for (const auto& [order, dimension] : taken)
    iota.permutation.push_back(dimension);
  iota.groups = {all / along, along};
  return iota;
}

bool expand_mesh(std::string_view text,
                 std::vector<std::vector<int64_t>>* groups) {
  std::vector<MeshAxis> axes;
  if (!read_mesh(text, &axes)) return false;
  std::vector<int64_t> sizes;
  sizes.reserve(axes.size());
  for (const MeshAxis& axis : axes) sizes.push_back(axis.size);
  return small_product(sizes) > 0 && expand_iota(iota_of_mesh(axes), groups);
}

/// `AxBxC…` of items `a_b_c`, such as `3x3` or `1_1x0_2_1`.
bool read_crossed(std::string_view text,
                  std::vector<std::vector<int64_t>>* out) {
  Reader reader(text);
  do {
    std::vector<int64_t>& item = out->emplace_back();
    do {
      if (!reader.integer(&item.emplace_back())) return false;
    } while (reader.take('_'));
  } while (reader.take('x'));
  return reader.at_end();
}

std::string_view window_field(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const size_t value = at + name.size();
    const bool starts = at > 0 && (text[at - 1] == ' ' || text[at - 1] == '{');
    if (!starts || value >= text.size() || text[value] != '=') continue;
    return text.substr(value + 1, text.find_first_of(" }", value) - value - 1);
  }
  return {};
}

}  // namespace

Result<std::vector<std::vector<int64_t>>> replica_groups(
    const Instruction& instruction, int64_t ranks) {
  const Attribute* found = instruction.find_attribute("replica_groups");
  const std::string_view text = raw_text(instruction, "replica_groups");
  std::vector<std::vector<int64_t>> groups;
  if (found != nullptr && text.starts_with('[')) {
    IotaGroups iota;
    if (!read_iota(text, &iota) || !expand_iota(iota, &groups)) {
      return malformed(instruction, "replica_groups");
    }
  } else if (text.starts_with("mesh[")) {
    if (!expand_mesh(text, &groups))
      return malformed(instruction, "replica_groups");
  } else if (!text.empty()) {
    if (!read_explicit_groups(text, &groups))
      return malformed(instruction, "replica_groups");
  }
  for (const std::vector<int64_t>& group : groups) {
    for (const int64_t id : group) {
      if (id < 0) return malformed(instruction, "replica_groups");
    }
  }
  if (groups.empty()) {
    if (ranks < 0 || ranks > kMaxParticipants) {
      return fail(ErrorKind::kInvalid, "{} ranks are not supported", ranks);
    }
    groups.emplace_back(static_cast<size_t>(ranks));
    std::iota(groups[0].begin(), groups[0].end(), 0);
  }
  return groups;
}

DotDimensions dot_dimensions(const Instruction& dot) {
  return {.lhs_batch = integer_list(dot, "lhs_batch_dims"),
          .rhs_batch = integer_list(dot, "rhs_batch_dims"),
          .lhs_contracting = integer_list(dot, "lhs_contracting_dims"),
          .rhs_contracting = integer_list(dot, "rhs_contracting_dims")};
}

Result<std::vector<SliceDimension>> slice_dimensions(const Instruction& slice) {
  std::vector<SliceDimension> dimensions;
  if (const Attribute* found = slice.find_attribute("slice")) {
    // `slice={}` of a scalar reads as an empty list.
    if (std::holds_alternative<std::vector<int64_t>>(found->value))
      return dimensions;
  }
  Reader reader(raw_text(slice, "slice"));
  if (!reader.take('{')) return malformed(slice, "slice");
  if (reader.take('}')) return dimensions;
  do {
    SliceDimension& dimension = dimensions.emplace_back();
    if (!reader.take('[') || !reader.integer(&dimension.start) ||
        !reader.take(':') || !reader.integer(&dimension.limit) ||
        (reader.take(':') && !reader.integer(&dimension.stride)) ||
        !reader.take(']')) {
      return malformed(slice, "slice");
    }
    if (dimension.start < 0 || dimension.limit < dimension.start ||
        dimension.stride < 1) {
      return malformed(slice, "slice");
    }
  } while (reader.take(','));
  if (!reader.take('}') || !reader.at_end()) return malformed(slice, "slice");
  return dimensions;
}

Result<std::vector<PadDimension>> pad_dimensions(const Instruction& pad) {
  std::vector<PadDimension> dimensions;
  const std::string_view text = raw_text(pad, "padding");
  if (text.empty()) return dimensions;
  std::vector<std::vector<int64_t>> items;
  if (!read_crossed(text, &items)) return malformed(pad, "padding");
  for (const std::vector<int64_t>& item : items) {
    if (item.size() != 2 && item.size() != 3) return malformed(pad, "padding");
    dimensions.push_back({item[0], item[1], item.size() == 3 ? item[2] : 0});
    if (dimensions.back().interior < 0) return malformed(pad, "padding");
  }
  return dimensions;
}

GatherDimensions gather_dimensions(const Instruction& gather) {
  return {
      .offset_dims = integer_list(gather, "offset_dims"),
      .collapsed_slice_dims = integer_list(gather, "collapsed_slice_dims"),
      .start_index_map = integer_list(gather, "start_index_map"),
      .slice_sizes = integer_list(gather, "slice_sizes"),
      .operand_batching_dims = integer_list(gather, "operand_batching_dims"),
      .start_indices_batching_dims =
          integer_list(gather, "start_indices_batching_dims"),
      .index_vector_dim = integer_or(gather, "index_vector_dim", 0)};
}

ScatterDimensions scatter_dimensions(const Instruction& scatter) {
  return {.update_window_dims = integer_list(scatter, "update_window_dims"),
          .inserted_window_dims = integer_list(scatter, "inserted_window_dims"),
          .scatter_dims_to_operand_dims =
              integer_list(scatter, "scatter_dims_to_operand_dims"),
          .input_batching_dims = integer_list(scatter, "input_batching_dims"),
          .scatter_indices_batching_dims =
              integer_list(scatter, "scatter_indices_batching_dims"),
          .index_vector_dim = integer_or(scatter, "index_vector_dim", 0)};
}

std::string compare_direction(const Instruction& compare) {
  return std::string(raw_text(compare, "direction"));
}

Result<std::vector<WindowDimension>> window_dimensions(
    const Instruction& instruction) {
  const std::string_view text = raw_text(instruction, "window");
  std::vector<WindowDimension> window;
  const auto read = [&](std::string_view field, auto assign) {
    const std::string_view value = window_field(text, field);
    if (value.empty()) return true;
    std::vector<std::vector<int64_t>> items;
    if (!read_crossed(value, &items)) return false;
    if (field == "size") window.resize(items.size());
    if (items.size() != window.size()) return false;
    for (size_t i = 0; i < items.size(); ++i) {
      if (!assign(&window[i], items[i])) return false;
    }
    return true;
  };
  const auto single = [](int64_t WindowDimension::*member, int64_t least) {
    return [member, least](WindowDimension* dimension,
                           const std::vector<int64_t>& item) {
      dimension->*member = item[0];
      return item.size() == 1 && item[0] >= least && item[0] <= kMaxWindowValue;
    };
  };
  const auto padding = [](WindowDimension* dimension,
                          const std::vector<int64_t>& item) {
    if (item.size() != 2) return false;
    if (std::abs(item[0] / 2) > kMaxWindowValue ||
        std::abs(item[1] / 2) > kMaxWindowValue) {
      return false;
    }
    dimension->padding_low = item[0];
    dimension->padding_high = item[1];
    return true;
  };
  if (!read("size", single(&WindowDimension::size, 0)) ||
      !read("stride", single(&WindowDimension::stride, 1)) ||
      !read("pad", padding) ||
      !read("lhs_dilate", single(&WindowDimension::base_dilation, 1)) ||
      !read("rhs_dilate", single(&WindowDimension::window_dilation, 1)) ||
      !read("rhs_reversal", single(&WindowDimension::reversal, 0))) {
    return malformed(instruction, "window");
  }
  return window;
}

}  // namespace reprise
