// Replica groups in their three spellings, explicit, iota and mesh, and the
// pairs of a collective-permute.
#include <algorithm>
#include <numeric>
#include <utility>

#include "data/hlo/attribute_reader.h"
#include "data/hlo/hlo.h"

namespace reprise {
namespace {

/// Most participants of a collective that are listed one by one.
constexpr int64_t kMaxParticipants = int64_t{1} << 20;

/// `[G,S]<=[d0,d1,…]T(p0,p1,…)`: iota over d, transposed by p, cut into G
/// groups of S.
struct IotaGroups {
  std::vector<int64_t> groups, dimensions, permutation;
};

/// `[d0,d1,…]T(p0,p1,…)`.
bool read_transposed(AttributeReader* reader, IotaGroups* iota) {
  if (!reader->list('[', ']', &iota->dimensions)) return false;
  if (reader->take('T')) return reader->list('(', ')', &iota->permutation);
  iota->permutation.resize(iota->dimensions.size());
  std::iota(iota->permutation.begin(), iota->permutation.end(), 0);
  return true;
}

bool read_iota(std::string_view text, IotaGroups* iota) {
  AttributeReader reader(text);
  return reader.list('[', ']', &iota->groups) && reader.take("<=") &&
         read_transposed(&reader, iota) && reader.at_end();
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
  AttributeReader reader(text);
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

/// `(3,1,2,0)`, or `([2,2]T(1,0))`, an iota of them all.
bool read_devices(AttributeReader* reader, std::vector<int64_t>* devices) {
  AttributeReader listed = *reader;
  if (listed.list('(', ')', devices)) {
    *reader = listed;
    return true;
  }
  devices->clear();
  IotaGroups iota;
  if (!reader->take('(') || !read_transposed(reader, &iota) ||
      !reader->take(')'))
    return false;
  iota.groups = {1, small_product(iota.dimensions)};
  std::vector<std::vector<int64_t>> all;
  if (!expand_iota(iota, &all) || all.size() != 1) return false;
  *devices = std::move(all[0]);
  return true;
}

/// `mesh['a'=2,'b'=4], device_ids=(…) {'a','b':(1)2}`: devices, in the order of
/// their numbers where none is given, along the axes, the last fastest; a group
/// runs along those in braces.
bool read_mesh(std::string_view text, std::vector<MeshAxis>* axes,
               std::vector<int64_t>* devices) {
  AttributeReader reader(text);
  if (!reader.take("mesh[")) return false;
  do {
    MeshAxis& axis = axes->emplace_back();
    if (!reader.quoted('\'', &axis.name) || !reader.take('=') ||
        !reader.integer(&axis.size) || axis.size < 1)
      return false;
  } while (reader.take(','));
  if (!reader.take(']')) return false;
  if (reader.take(", device_ids=") && !read_devices(&reader, devices))
    return false;
  if (!reader.take('{')) return false;
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
  std::vector<int64_t> devices, sizes;
  if (!read_mesh(text, &axes, &devices)) return false;
  sizes.reserve(axes.size());
  for (const MeshAxis& axis : axes) sizes.push_back(axis.size);
  const int64_t count = small_product(sizes);
  if (count < 0 || !expand_iota(iota_of_mesh(axes), groups)) return false;
  if (devices.empty()) return true;
  if (!is_permutation_of_indices(devices, static_cast<size_t>(count)))
    return false;
  for (std::vector<int64_t>& group : *groups) {
    for (int64_t& place : group) place = devices[static_cast<size_t>(place)];
  }
  return true;
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

Result<std::vector<std::vector<int64_t>>> source_target_pairs(
    const Instruction& permute) {
  std::vector<std::vector<int64_t>> pairs;
  const std::string_view text = raw_text(permute, "source_target_pairs");
  if (!text.empty() && !read_explicit_groups(text, &pairs))
    return malformed(permute, "source_target_pairs");
  for (const std::vector<int64_t>& pair : pairs) {
    if (pair.size() != 2) return malformed(permute, "source_target_pairs");
  }
  return pairs;
}

}  // namespace reprise
