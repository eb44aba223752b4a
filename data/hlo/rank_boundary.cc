// With shard_map, the text that JAX lowers to holds one rank's program, between
// calls that turn arrays of all ranks into one rank's and back. Each call has
// become marks, one an array. A parameter behind which a mark stands has the
// mark's shape on a rank; what else uses it would need all of it, which no rank
// has. So every instruction is held to the shapes that it was written for.
#include "data/hlo/rank_boundary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/hlo/instruction_place.h"

namespace reprise {
namespace {

/// Calls for the partitioner's eyes, the two pairs of shard_map, and what a
/// compiler of AWS puts around collectives: of each, the operands are the
/// results.
constexpr std::array<std::string_view, 9> kBoundaries = {
    "AwsNeuronTransferWithStaticRing",
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
    "xla.sdy.PropagationBarrier",
    "annotate_device_placement"};
constexpr std::string_view kMark = "reprise.rank_boundary";
constexpr std::string_view kWhatToGive =
    "give the dump after partitioning instead "
    "(*.spmd-partitioner.after_spmd-partitioning.*.txt of --xla_dump_to with "
    "--xla_dump_hlo_pass_re=spmd-partitioning, or compile().as_text())";

std::string_view attribute_text(const Instruction& instruction,
                                std::string_view name) {
  const Attribute* found = instruction.find_attribute(name);
  const auto* raw =
      found == nullptr ? nullptr : std::get_if<RawText>(&found->value);
  return raw == nullptr ? std::string_view() : std::string_view(raw->text);
}

std::string_view target_of(const Instruction& instruction) {
  if (instruction.opcode != Opcode::kCustomCall) return {};
  std::string_view text = attribute_text(instruction, "custom_call_target");
  if (text.size() < 2) return {};
  return text.substr(1, text.size() - 2);
}

bool has_dimensions(const Shape& a, const Shape& b) {
  return a.type == b.type && a.dimensions == b.dimensions;
}

/// `"dp"=2` of the header's meshes: axes of more than one device, each as
/// `"dp"` with its quotes and backslashes.
std::vector<std::string> mesh_axes(const Module& module) {
  std::vector<std::string> axes;
  for (const Attribute& attribute : module.attributes) {
    const auto* raw = std::get_if<RawText>(&attribute.value);
    if (attribute.name != "frontend_attributes" || raw == nullptr) continue;
    const size_t meshes = raw->text.find("xla.sdy.meshes=");
    if (meshes == std::string::npos) continue;
    const std::string_view text = std::string_view(raw->text).substr(meshes);
    constexpr std::string_view kQuote = "\\\"";
    for (size_t at = text.find(kQuote); at != std::string_view::npos;
         at = text.find(kQuote, at)) {
      const size_t end = text.find(kQuote, at + kQuote.size());
      if (end == std::string_view::npos) break;
      const size_t equals = end + kQuote.size();
      int64_t devices = 0;
      if (equals < text.size() && text[equals] == '=') {
        std::from_chars(text.data() + equals + 1, text.data() + text.size(),
                        devices);
      }
      if (devices > 1) axes.emplace_back(text.substr(at, equals - at));
      at = equals;
    }
  }
  return axes;
}

/// Whether `{mesh['a'=2,'b'=1], [{'a'}, {'b', ?}]}` cuts a dimension: along an
/// axis of more than one device, as far as that is known.
bool cuts_along_axis(std::string_view sharding) {
  const size_t dimensions = sharding.find("[{");
  if (dimensions == std::string_view::npos) return false;
  const std::string_view mesh = sharding.substr(0, dimensions);
  std::string_view rest = sharding.substr(dimensions);
  rest = rest.substr(0, rest.find(']'));
  for (;;) {
    const size_t open = rest.find('\'');
    const size_t close = rest.find('\'', open + 1);
    if (close == std::string_view::npos) return false;
    const std::string_view name = rest.substr(open, close + 1 - open);
    if (mesh.find(fmt::format("{}=1,", name)) == std::string_view::npos &&
        mesh.find(fmt::format("{}=1]", name)) == std::string_view::npos)
      return true;
    rest.remove_prefix(close + 1);
  }
}

/// A sharding that cuts an array into parts: `{devices=[2,1]<=[2]}`, the last
/// extent no cut where `last_tile_dim_replicate` follows, or one of a mesh.
bool cuts_array(std::string_view sharding) {
  constexpr std::string_view kTiles = "{devices=[";
  if (sharding.starts_with("{mesh[")) return cuts_along_axis(sharding);
  if (!sharding.starts_with(kTiles)) return false;
  const bool replicates =
      sharding.find("last_tile_dim_replicate") != std::string_view::npos;
  std::vector<int64_t> tiles;
  const char* at = sharding.data() + kTiles.size();
  const char* end = sharding.data() + sharding.size();
  for (;;) {
    const auto read = std::from_chars(at, end, tiles.emplace_back());
    if (read.ec != std::errc() || read.ptr == end) return false;
    at = read.ptr + 1;
    if (*read.ptr != ',') break;
  }
  if (replicates) tiles.pop_back();
  return std::any_of(tiles.begin(), tiles.end(),
                     [](int64_t tile) { return tile > 1; });
}

class Boundary {
 public:
  Boundary(const Module& module, Computation* entry)
      : module_(module), entry_(*entry) {}

  Status leave() {
    Status status = check_axes();
    if (status) status = collect_shapes();
    if (status) status = check_uses();
    if (status) status = check_partitioned();
    if (!status) return status;
    remove_marks();
    return {};
  }

 private:
  InstructionId base_of(InstructionId id) const {
    while (is_boundary_mark(entry_.at(id))) id = entry_.at(id).operands[0];
    return id;
  }

  /// What a rank has of a value.
  const Shape& local_shape(InstructionId base) const {
    const Shape& shape = local_[index_of(base)];
    return shape.is_tuple() ? entry_.at(base).shape : shape;
  }

  // Axes that shard_map leaves to the partitioner would still have to be cut.
  Status check_axes() const {
    const std::vector<std::string> axes = mesh_axes(module_);
    for (const Instruction& mark : entry_.instructions) {
      if (!is_boundary_mark(mark)) continue;
      const std::string_view attributes =
          attribute_text(mark, "frontend_attributes");
      const size_t manual = attributes.find("xla.sdy.manual_axes=");
      if (manual == std::string_view::npos) continue;
      const std::string_view text = attributes.substr(manual);
      for (const std::string& axis : axes) {
        if (text.find(axis) != std::string_view::npos) continue;
        return refuse(mark, fmt::format("leaves the axis {} of its mesh to a "
                                        "partitioner that has not run",
                                        axis.substr(2, axis.size() - 4)));
      }
    }
    return {};
  }

  Status collect_shapes() {
    Shape none;
    none.type = PrimitiveType::kTuple;
    local_.assign(entry_.instructions.size(), none);
    for (const Instruction& mark : entry_.instructions) {
      if (!is_boundary_mark(mark)) continue;
      const InstructionId base = base_of(mark.operands[0]);
      const Instruction& value = entry_.at(base);
      Shape& local = local_[index_of(base)];
      // What a mark makes of a mark's result is checked at its use.
      if (value.opcode != Opcode::kParameter || !reaches_directly(mark, value))
        continue;
      if (has_dimensions(mark.shape, value.shape)) continue;
      if (!local.is_tuple() && !has_dimensions(local, mark.shape)) {
        return refuse(value, fmt::format("is {} on a rank, and {}",
                                         shape_text(local, false),
                                         shape_text(mark.shape, false)));
      }
      local = mark.shape;
      local.minor_to_major.clear();
      local.has_layout = false;
    }
    return {};
  }

  /// Whether all marks between a mark and its parameter keep the shape.
  bool reaches_directly(const Instruction& mark,
                        const Instruction& value) const {
    InstructionId at = mark.operands[0];
    for (; is_boundary_mark(entry_.at(at)); at = entry_.at(at).operands[0]) {
      if (!has_dimensions(entry_.at(at).shape, value.shape)) return false;
    }
    return true;
  }

  Status check_uses() const {
    for (size_t i = 0; i < entry_.instructions.size(); ++i) {
      const Instruction& user = entry_.instructions[i];
      const bool is_result =
          i == index_of(entry_.root) && user.opcode == Opcode::kTuple;
      if (is_boundary_mark(user) || is_result) continue;
      for (const InstructionId operand : user.operands) {
        const Shape& expected = entry_.at(operand).shape;
        if (!expected.is_array()) continue;
        const Shape& actual = local_shape(base_of(operand));
        if (has_dimensions(expected, actual)) continue;
        return refuse(
            user, fmt::format("takes {}, and is given {}, across the border of "
                              "shard_map: what stands outside is left to a "
                              "partitioner that has not run",
                              shape_text(expected, false),
                              shape_text(actual, false)));
      }
    }
    return {};
  }

  // jit with shardings alone: whole arrays, which a partitioner would cut.
  Status check_partitioned() const {
    if (entry_.name.ends_with("_spmd")) return {};
    bool has_marks = false, has_collectives = false;
    for (const Instruction& instruction : entry_.instructions) {
      has_marks = has_marks || is_boundary_mark(instruction);
      has_collectives =
          has_collectives || is_collective(wrapped_opcode(instruction));
    }
    if (has_collectives && !has_marks) return {};
    for (size_t i = 0; i < entry_.instructions.size(); ++i) {
      const Instruction& parameter = entry_.instructions[i];
      if (parameter.opcode != Opcode::kParameter || !local_[i].is_tuple())
        continue;
      if (!cuts_array(attribute_text(parameter, "sharding"))) continue;
      return refuse(parameter,
                    "is sharded, and the partitioner that makes one "
                    "rank's program of this one has not run");
    }
    return {};
  }

  Status refuse(const Instruction& instruction, const std::string& what) const {
    return fail(ErrorKind::kUnsupported, "{} {}; {}",
                instruction_place(module_, instruction), what, kWhatToGive);
  }

  void remove_marks() {
    std::vector<InstructionId> place(entry_.instructions.size());
    std::vector<Instruction> kept;
    for (size_t i = 0; i < entry_.instructions.size(); ++i) {
      Instruction& instruction = entry_.instructions[i];
      for (InstructionId& operand : instruction.operands)
        operand = place[index_of(operand)];
      if (is_boundary_mark(instruction)) {
        place[i] = instruction.operands[0];
        continue;
      }
      for (Attribute& attribute : instruction.attributes) {
        if (auto* ids =
                std::get_if<std::vector<InstructionId>>(&attribute.value)) {
          for (InstructionId& id : *ids) id = place[index_of(id)];
        }
      }
      if (!local_[i].is_tuple()) instruction.shape = local_[i];
      place[i] = InstructionId(static_cast<uint32_t>(kept.size()));
      kept.push_back(std::move(instruction));
    }
    entry_.root = place[index_of(entry_.root)];
    entry_.instructions = std::move(kept);
    Instruction& root = entry_.at(entry_.root);
    if (root.opcode != Opcode::kTuple) return;
    for (size_t i = 0; i < root.operands.size(); ++i) {
      const Shape& shape = entry_.at(root.operands[i]).shape;
      if (!has_dimensions(root.shape.elements[i], shape))
        root.shape.elements[i] = shape;
    }
  }

  const Module& module_;
  Computation& entry_;
  /// [instruction] A rank's shape of a parameter, or a tuple for "as written".
  std::vector<Shape> local_;
};

}  // namespace

bool is_rank_boundary(const Instruction& instruction) {
  const std::string_view target = target_of(instruction);
  const size_t arrays =
      instruction.shape.is_tuple() ? instruction.shape.elements.size() : 1;
  if (target.empty() || instruction.operands.size() != arrays) return false;
  for (const std::string_view boundary : kBoundaries) {
    if (boundary == target) return true;
  }
  return false;
}

Instruction boundary_mark(const Instruction& call, size_t element,
                          InstructionId operand) {
  Instruction mark;
  mark.name = call.name + fmt::format("/{}", element);
  mark.opcode = Opcode::kCopy;
  mark.opcode_text = kMark;
  mark.shape =
      call.shape.is_tuple() ? call.shape.elements[element] : call.shape;
  mark.operands = {operand};
  for (const char* name : {"frontend_attributes", "metadata"}) {
    if (const Attribute* found = call.find_attribute(name))
      mark.attributes.push_back(*found);
  }
  return mark;
}

bool is_boundary_mark(const Instruction& instruction) {
  return instruction.opcode == Opcode::kCopy &&
         instruction.opcode_text == kMark;
}

Status leave_rank_boundaries(const Module& module, Computation* entry) {
  return Boundary(module, entry).leave();
}

}  // namespace reprise
