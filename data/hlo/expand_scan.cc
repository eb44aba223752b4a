#include "data/hlo/expand_scan.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/hlo/hlo.h"
#include "data/hlo/scan_form.h"

namespace reprise {
namespace {

class ScanOps : public ExpansionOps {
 public:
  using ExpansionOps::ExpansionOps;

  /// That of the last step.
  InstructionId last_row(InstructionId whole, const ScanForm& form) {
    Shape cut = array_of(shape(whole).type, shape(whole).dimensions);
    std::vector<SliceDimension> bounds;
    for (size_t d = 0; d < cut.dimensions.size(); ++d) {
      int64_t first = 0, end = cut.dimensions[d];
      if (d == form.dimension) {
        first = form.is_reverse ? 0 : end - 1;
        end = first + 1;
        cut.dimensions[d] = 1;
      }
      bounds.push_back({first, end});
    }
    std::vector<int64_t> row = row_shape(cut, form.dimension).dimensions;
    const InstructionId sliced =
        op(Opcode::kSlice, {whole}, std::move(cut), {slice_attribute(bounds)});
    return reshaped(sliced, std::move(row));
  }
};

/// Whether the carry after the last step has a reader.
bool reads_carry(const Computation& around, const Instruction& scan) {
  const std::vector<uint32_t> uses = use_counts(around);
  const InstructionId id{
      static_cast<uint32_t>(&scan - around.instructions.data())};
  if (around.root == id) return true;
  for (size_t i = 0; i < around.instructions.size(); ++i) {
    const Instruction& reader = around.instructions[i];
    if (std::ranges::find(reader.operands, id) == reader.operands.end())
      continue;
    if (picked_element(reader) != size_t{0} && uses[i] > 0) return true;
  }
  return false;
}

/// One scan as a loop, whose state is the number of the step, carries, inputs
/// and outputs.
class ScanLoop {
 public:
  ScanLoop(const Computation& around, const Instruction& scan,
           const ScanForm& form, RebuiltModule* rebuilt)
      : around_(around), scan_(scan), form_(form), rebuilt_(*rebuilt) {}

  /// Outputs and last carries.
  std::vector<InstructionId> run(ScanOps* ops) {
    const auto inputs = static_cast<ptrdiff_t>(form_.inputs);
    const auto& operands = scan_.operands;
    std::vector<InstructionId> state{ops->integer(0)};
    state.insert(state.end(), operands.begin() + inputs, operands.end());
    state.insert(state.end(), operands.begin(), operands.begin() + inputs);
    for (size_t i = 0; i < form_.outputs; ++i)
      state.push_back(ops->zeros(scan_.shape.elements[i]));
    Instruction loop;
    loop.name = scan_.name + "/while";
    loop.opcode = Opcode::kWhile;
    loop.operands = {ops->tuple(std::move(state))};
    loop.shape = ops->shape(loop.operands[0]);
    loop.attributes = {{"condition", condition(loop.shape)},
                       {"body", body(loop.shape)}};
    const InstructionId last = ops->append(std::move(loop));
    std::vector<InstructionId> given =
        ops->elements(last, first_output(), form_.outputs);
    const auto carries = ops->elements(last, 1, form_.carries);
    given.insert(given.end(), carries.begin(), carries.end());
    return given;
  }

 private:
  size_t first_output() const { return 1 + form_.carries + form_.inputs; }

  ComputationId condition(const Shape& state) {
    Computation made = RebuiltModule::named(around_, scan_, "condition");
    ScanOps ops(scan_, &made.instructions);
    const InstructionId step = ops.picked(ops.parameter(0, state), 0);
    made.root = ops.compare("LT", step, ops.integer(form_.steps));
    return rebuilt_.add(std::move(made));
  }

  ComputationId body(const Shape& state) {
    Computation made = RebuiltModule::named(around_, scan_, "body");
    ScanOps ops(scan_, &made.instructions);
    const Shape counter = array_of(PrimitiveType::kS32);
    const InstructionId all = ops.parameter(0, state);
    const InstructionId step = ops.picked(all, 0);
    const auto inputs = ops.elements(all, 1 + form_.carries, form_.inputs);
    const InstructionId at =
        form_.is_reverse ? ops.op(Opcode::kSubtract,
                                  {ops.integer(form_.steps - 1), step}, counter)
                         : step;
    std::vector<InstructionId> taken;
    taken.reserve(form_.inputs + form_.carries);
    for (const InstructionId input : inputs)
      taken.push_back(ops.row(input, at, form_.dimension));
    for (const InstructionId carry : ops.elements(all, 1, form_.carries))
      taken.push_back(carry);
    const ComputationId called = rebuilt_.now[index_of(form_.step)];
    const Computation& callee = rebuilt_.made[index_of(called)];
    const InstructionId given =
        ops.op(Opcode::kCall, std::move(taken), callee.at(callee.root).shape,
               {{"to_apply", called}});
    std::vector<InstructionId> next{
        ops.op(Opcode::kAdd, {step, ops.integer(1)}, counter)};
    for (size_t i = 0; i < form_.carries; ++i)
      next.push_back(ops.picked(given, form_.outputs + i));
    next.insert(next.end(), inputs.begin(), inputs.end());
    for (size_t i = 0; i < form_.outputs; ++i) {
      next.push_back(ops.with_row(ops.picked(all, first_output() + i),
                                  ops.picked(given, i), at, form_.dimension));
    }
    made.root = ops.tuple(std::move(next));
    return rebuilt_.add(std::move(made));
  }

  const Computation& around_;
  const Instruction& scan_;
  const ScanForm& form_;
  RebuiltModule& rebuilt_;
};

}  // namespace

std::optional<InstructionId> expand_scan(const Computation& around,
                                         const Instruction& original,
                                         const Instruction& scan,
                                         RebuiltModule* rebuilt,
                                         Computation* to) {
  const auto form = scan_form(rebuilt->from, around, original);
  if (!form) return std::nullopt;
  const auto cumulative =
      cumulative_scan(rebuilt->from, *form, *to, scan.operands[1]);
  ScanOps ops(scan, &to->instructions);
  Instruction all;
  all.name = scan.name;
  all.opcode = Opcode::kTuple;
  all.shape = scan.shape;
  if (cumulative) {
    const Shape& shape = scan.shape.elements[0];
    Instruction window = cumulative_reduce_window(
        shape, form->dimension, form->is_reverse, scan.operands[0],
        cumulative->identity,
        rebuilt->combiner(around, scan, cumulative->combine, shape.type));
    window.name = scan.name + "/window";
    const InstructionId rows = ops.append(std::move(window));
    // Without a reader any value of the carry's shape does.
    all.operands = {rows, reads_carry(around, original)
                              ? ops.last_row(rows, *form)
                              : scan.operands[1]};
  } else {
    all.operands = ScanLoop(around, scan, *form, rebuilt).run(&ops);
  }
  return ops.append(std::move(all));
}

}  // namespace reprise
