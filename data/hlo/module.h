// An HLO module as values: shapes, instructions, computations. It is what the
// parser makes, every floor reads, and the printer writes.
//
// Invariants (established by the parser or `verify`): instructions of a
// computation stand in a topological order (operands first); ids are indices;
// names are unique within a computation. Instances are plain values, safe to
// read from many threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "data/hlo/opcode.h"
#include "data/primitive_type.h"
#include "data/result.h"

namespace reprise {

/// Index of an instruction in its computation.
enum class InstructionId : uint32_t {};
/// Index of a computation in its module.
enum class ComputationId : uint32_t {};

constexpr uint32_t index_of(InstructionId id) {
  return static_cast<uint32_t>(id);
}
constexpr uint32_t index_of(ComputationId id) {
  return static_cast<uint32_t>(id);
}

/// The type and size of one array, or a tuple of shapes.
struct Shape {
  PrimitiveType type = PrimitiveType::kF32;
  std::vector<int64_t> dimensions;  ///< Array extents, major first as written.
  std::vector<bool> dynamic;        ///< Empty, or one flag a dimension (`<=N`).
  /// Layout; empty when none was written.
  std::vector<int64_t> minor_to_major;
  bool has_layout = false;  ///< A layout was written (`{}` for scalars counts).
  /// Tiles, memory space …: text after the ':' in a layout.
  std::string layout_suffix;
  std::vector<Shape> elements;  ///< Tuple elements when type is kTuple.

  bool is_tuple() const { return type == PrimitiveType::kTuple; }
  bool is_array() const {
    return type != PrimitiveType::kTuple && type != PrimitiveType::kToken &&
           type != PrimitiveType::kOpaque;
  }
  bool operator==(const Shape&) const = default;
};

/// Number of elements of an array shape (1 for a scalar). The parser has
/// checked that element counts and byte sizes of every shape fit in int64.
int64_t element_count(const Shape& shape);
/// Bytes of an array, or of all arrays of a tuple (a tuple's pointer table is
/// not counted).
int64_t byte_size(const Shape& shape);
/// Prints as HLO text, `f32[2,3]{1,0}`; without layouts on request.
std::string shape_text(const Shape& shape, bool with_layout = true);

/// Attribute values keep references as ids, so that renaming is safe; what
/// Reprise does not interpret is kept verbatim as text.
struct RawText {
  std::string text;
  bool operator==(const RawText&) const = default;
};
using AttributeValue =
    std::variant<RawText, std::vector<int64_t>, ComputationId,
                 std::vector<ComputationId>, std::vector<InstructionId>>;

/// `name=value` after the operands of an instruction. `dimensions={0,1}` and
/// like lists are vector<int64_t>; `to_apply=%c`, `calls=`, `body=`,
/// `condition=` … ComputationId; `branch_computations={…}`,
/// `called_computations={…}` vectors of them; `control-predecessors={…}`
/// InstructionIds; everything else raw.
struct Attribute {
  std::string name;
  AttributeValue value;
  bool operator==(const Attribute&) const = default;
};

struct Instruction {
  std::string name;  ///< Without the leading '%'.
  Opcode opcode = Opcode::kParameter;
  /// For generic async sugar (`reduce-scatter-start`) and opcodes outside the
  /// enum's list of known ones: the opcode as written. Empty otherwise.
  std::string opcode_text;
  Shape shape;
  std::vector<InstructionId> operands;
  int64_t parameter_number = -1;  ///< kParameter only.
  /// kConstant: the literal as written, `{...}` if elided.
  std::string literal;
  /// As written, metadata and sharding included.
  std::vector<Attribute> attributes;

  const Attribute* find_attribute(std::string_view attribute_name) const;
  bool operator==(const Instruction&) const = default;
};

struct Computation {
  std::string name;
  std::vector<Instruction> instructions;
  InstructionId root{};
  bool is_fused = false;         ///< Called by a fusion (filled by the parser).
  bool has_header_types = true;  ///< The header printed parameters and result.
  std::string execution_thread;  ///< `execution_thread="…"`, or empty.

  const Instruction& at(InstructionId id) const {
    return instructions[index_of(id)];
  }
  Instruction& at(InstructionId id) { return instructions[index_of(id)]; }
  bool operator==(const Computation&) const = default;
};

/// One entry of `input_output_alias`: output tuple index -> parameter.
struct InputOutputAlias {
  std::vector<int64_t> output_index;
  int64_t parameter = 0;
  std::vector<int64_t> parameter_index;
  bool must_alias = false;
  bool operator==(const InputOutputAlias&) const = default;
};

struct Module {
  std::string name;
  /// Header attributes but input_output_alias, as written.
  std::vector<Attribute> attributes;
  std::vector<InputOutputAlias> aliases;
  /// In text order; callees precede callers.
  std::vector<Computation> computations;
  ComputationId entry{};
  std::string tail_tables;  ///< FileNames … StackFrames tables, verbatim.

  const Computation& entry_computation() const {
    return computations[index_of(entry)];
  }
  Computation& entry_computation() { return computations[index_of(entry)]; }
  const Computation& at(ComputationId id) const {
    return computations[index_of(id)];
  }
  bool operator==(const Module&) const = default;
};

/// How the numbers of a program are computed where XLA's compilers, which get
/// it later than a dump is written, would not do it step by step.
enum class Arithmetic : uint8_t {
  /// Constants folded (data/hlo/fold_constants.h), products part of sums
  /// (data/hlo/contract_products.h); and, which XLA does not do, those of few
  /// rows taken out of loops (data/hlo/loop_products.h), small dots left to
  /// kernels (data/hlo/small_dot.h), and sums over many rows made by blocks of
  /// rows (data/hlo/sum_steps.h).
  kAsXla,
  /// The same with the copies of modules that are not compiled.
  kCopiesKept,
  /// And with products apart from sums where anything else reads them, too
  /// (data/hlo/repeated_products.h).
  kProductsShared,
  /// And with functions of functions (data/hlo/nested_functions.h), and
  /// without reshapes that change nothing behind what is rounded, either
  /// (data/hlo/unrounded_reads.h).
  kNested,
  /// And with sums of copies, and constants apart on both sides of what moves
  /// elements.
  kCopiesAdded,
  /// And with all that slices take apart (data/hlo/slice_parts.h).
  kWholesMade,
  /// And with the windows of data/hlo/scan_windows.h one by one.
  kScansInKernels,
  /// And with each row of a scan for itself, as in plans and traces of before
  /// data/hlo/called_rows.h.
  kRowsApart,
  /// And with scatters into zeros (data/hlo/scatter_sums.h).
  kScattersApart,
  /// Without them, constants of f16 and reads through tuples
  /// (data/hlo/unrounded_reads.h).
  kHalfDivided,
  /// Without blocks of rows either.
  kSumsByColumn,
  /// Without the last two.
  kDotsInLibrary,
  /// Without the last three.
  kInLoops,
  /// Each op on its own, as in plans and traces of before the other.
  kAsWritten,
};

/// The entry and the computations that run as parts of some other (loops,
/// branches, calls), in order; not reducers.
std::vector<ComputationId> program_parts(const Module& module);

/// What a program is lowered for.
enum class LoweredFor : uint8_t {
  kProcessor,
  kGpu,  ///< Whose launches take longer than small arrays.
};

/// A module without calls of its entry: `inline_calls` (hlo.h) alone makes one,
/// so what takes one need not inline, nor ask. Hand it around as const.
class InlinedModule : public Module {
 public:
  InlinedModule() = default;  ///< Empty.

  LoweredFor device = LoweredFor::kProcessor;

 private:
  friend Result<InlinedModule> inline_calls(const Module& module,
                                            Arithmetic arithmetic);
  explicit InlinedModule(const Module& module) : Module(module) {}
};

/// A count of the header, `replica_count=8`; 1 when it has none.
int64_t header_count(const Module& module, std::string_view name);

/// Whether a module or an instruction has this `key="value"` among its
/// `frontend_attributes={…}`, by which `reprise.jax.export` notes how XLA
/// computes what the text leaves open.
bool has_note(const std::vector<Attribute>& attributes, std::string_view note);
void add_note(std::string_view note, std::vector<Attribute>* attributes);

/// The opcode as the text spells it.
std::string_view written_opcode(const Instruction& instruction);

/// What runs: of async sugar (`reduce-scatter-start`), whose attributes are
/// those of the operation it wraps, that operation; of all others the opcode
/// itself.
Opcode wrapped_opcode(const Instruction& instruction);

/// The shape of what an instruction computes: of the start of an async pair,
/// whose own shape holds the operands too, what its end gives.
const Shape& computed_shape(const Instruction& instruction);

/// The operation that a start written as async sugar wraps, on its own.
Instruction unwrapped(const Instruction& start);

/// The parameters, by number.
std::vector<const Instruction*> parameters_of(const Computation& computation);

/// Whether it waits for more than its operands.
bool has_control_predecessors(const Instruction& instruction);

/// How often each instruction is read, `[instruction]`: by operands, by control
/// edges, and once more if it is the root.
std::vector<uint32_t> use_counts(const Computation& computation);

/// Removes instructions, `[instruction]`, that nothing which stays reads.
void drop_instructions(const std::vector<bool>& dropped,
                       Computation* computation);

/// Users of each instruction, `[instruction]` -> ids in ascending order, each
/// once.
std::vector<std::vector<InstructionId>> users_of(
    const Computation& computation);

/// The integers of `name={1,2}` or of `name=3`; empty when absent or something
/// else.
std::vector<int64_t> integer_list(const Instruction& instruction,
                                  std::string_view attribute);
/// Which element of its tuple a get-tuple-element picks; none of others.
std::optional<size_t> picked_element(const Instruction& instruction);
/// The computation that `attribute` names, if it names one.
std::optional<ComputationId> called_computation(
    const Instruction& instruction, std::string_view attribute = "to_apply");

}  // namespace reprise
