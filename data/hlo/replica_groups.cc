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

struct MeshAxis {
  std::string_view name;
  int64_t size = 0;
};

/// What a group runs along: an axis, or the sub-axis `:(before)along` of it,
/// which is the middle of three that make up the axis, the last fastest:
/// `before` steps, `along` steps and the rest.
struct AxisPart {
  size_t axis = 0;
  int64_t before = 1, along = 0;
  int64_t dimension = 0;  ///< Of the iota, once that is made.
};

struct MeshGroups {
  std::vector<MeshAxis> axes;    ///< Places run along them, the last fastest.
  std::vector<int64_t> devices;  ///< At each place; empty: their numbers.
  std::vector<AxisPart> along;   ///< A group's members, the last fastest.
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

bool read_axes(AttributeReader* reader, std::vector<MeshAxis>* axes) {
  do {
    MeshAxis axis;
    if (!reader->quoted('\'', &axis.name) || !reader->take('=') ||
        !reader->integer(&axis.size) || axis.size < 1 ||
        std::any_of(axes->begin(), axes->end(), [&](const MeshAxis& other) {
          return other.name == axis.name;
        }))
      return false;
    axes->push_back(axis);
  } while (reader->take(','));
  return true;
}

/// `'a'` or `'a':(1)2`.
bool read_part(AttributeReader* reader, const std::vector<MeshAxis>& axes,
               AxisPart* part) {
  std::string_view name;
  if (!reader->quoted('\'', &name)) return false;
  const auto axis =
      std::find_if(axes.begin(), axes.end(),
                   [&](const MeshAxis& a) { return a.name == name; });
  if (axis == axes.end()) return false;
  part->axis = static_cast<size_t>(axis - axes.begin());
  part->along = axis->size;
  return !reader->take(':') ||
         (reader->take('(') && reader->integer(&part->before) &&
          reader->take(')') && reader->integer(&part->along));
}

/// `mesh['a'=2,'b'=4], device_ids=(…) {'a','b':(1)2}`.
bool read_mesh(std::string_view text, MeshGroups* mesh) {
  AttributeReader reader(text);
  if (!reader.take("mesh[") || !read_axes(&reader, &mesh->axes) ||
      !reader.take(']'))
    return false;
  if (reader.take(", device_ids=") && !read_devices(&reader, &mesh->devices))
    return false;
  if (!reader.take('{')) return false;
  if (reader.take('}')) return reader.at_end();
  do {
    if (!read_part(&reader, mesh->axes, &mesh->along.emplace_back()))
      return false;
  } while (reader.take(','));
  return reader.take('}') && reader.at_end();
}

/// Cuts an axis into dimensions of the iota: its `parts` and what lies between
/// them, along which groups stand. False where parts overlap or do not divide
/// the axis.
bool cut_axis(int64_t size, std::vector<AxisPart*> parts, IotaGroups* iota) {
  const auto add = [&](int64_t extent) {
    iota->dimensions.push_back(extent);
    return static_cast<int64_t>(iota->dimensions.size() - 1);
  };
  std::sort(parts.begin(), parts.end(),
            [](const auto* a, const auto* b) { return a->before < b->before; });
  int64_t done = 1;
  for (AxisPart* part : parts) {
    if (part->before < done || part->before % done != 0 || part->along < 1 ||
        size % part->before != 0 || size / part->before % part->along != 0)
      return false;
    iota->permutation.push_back(add(part->before / done));
    part->dimension = add(part->along);
    done = part->before * part->along;
  }
  iota->permutation.push_back(add(size / done));
  return true;
}

/// The same groups of places; groups stand along what they do not run along.
bool iota_of_mesh(MeshGroups mesh, IotaGroups* iota) {
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    std::vector<AxisPart*> parts;
    for (AxisPart& part : mesh.along) {
      if (part.axis == axis) parts.push_back(&part);
    }
    if (!cut_axis(mesh.axes[axis].size, std::move(parts), iota)) return false;
  }
  int64_t along = 1;
  for (const AxisPart& part : mesh.along) {
    iota->permutation.push_back(part.dimension);
    along *= part.along;
  }
  iota->groups = {small_product(iota->dimensions) / along, along};
  return true;
}

bool expand_mesh(std::string_view text,
                 std::vector<std::vector<int64_t>>* groups) {
  MeshGroups mesh;
  if (!read_mesh(text, &mesh)) return false;
  std::vector<int64_t> sizes;
  sizes.reserve(mesh.axes.size());
  for (const MeshAxis& axis : mesh.axes) sizes.push_back(axis.size);
  const int64_t count = small_product(sizes);
  IotaGroups iota;
  if (count < 0 || !iota_of_mesh(mesh, &iota) || !expand_iota(iota, groups))
    return false;
  if (mesh.devices.empty()) return true;
  if (!is_permutation_of_indices(mesh.devices, static_cast<size_t>(count)))
    return false;
  for (std::vector<int64_t>& group : *groups) {
    for (int64_t& place : group)
      place = mesh.devices[static_cast<size_t>(place)];
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
