// Scatters over few elements: each element looks for its own updates, in order.
#include <algorithm>
#include <set>

#include "runtime/kernels/print_cuda_facts.h"
#include "runtime/kernels/print_cuda_stage.h"

namespace reprise {
namespace {

using Block = std::vector<KernelStatement>;
using Kind = KernelStatement::Kind;

constexpr int64_t kThreads = 128;

/// Lets in order.
void find_lets(const Block& block, std::vector<int32_t>& lets) {
  for (const KernelStatement& statement : block) {
    if (statement.kind == Kind::kLet) lets.push_back(statement.value);
    find_lets(statement.body, lets);
  }
}

void add_values_of(const Kernel& kernel, int32_t expression,
                   std::set<int32_t>& values) {
  for (const IndexTerm& term : kernel.indices.at(expression).terms) {
    const IndexAtom& atom = kernel.indices.atom(term.atom);
    if (atom.kind == IndexAtom::Kind::kValue) {
      values.insert(atom.operand);
    } else if (atom.kind != IndexAtom::Kind::kLoop) {
      add_values_of(kernel, atom.operand, values);
    }
  }
}

/// What says whether an update is for an element: index and guard.
std::set<int32_t> deciding_values(const Kernel& kernel,
                                  const KernelStatement& store,
                                  const std::vector<int32_t>& lets) {
  std::set<int32_t> deciding;
  add_values_of(kernel, store.index, deciding);
  if (store.guard >= 0) deciding.insert(store.guard);
  for (size_t i = lets.size(); i-- > 0;) {
    if (!deciding.contains(lets[i])) continue;
    const KernelValue& value = kernel.values[static_cast<size_t>(lets[i])];
    if (value.index >= 0) add_values_of(kernel, value.index, deciding);
    for (const int32_t operand : value.operands) {
      if (operand >= 0) deciding.insert(operand);
    }
  }
  return deciding;
}

/// The walk through all updates by the thread of element `e`.
void print_walk(StageWriter& writer, const KernelStatement& store,
                PrimitiveType type) {
  const Kernel& kernel = writer.kernel();
  std::vector<int32_t> lets;
  find_lets(kernel.body, lets);
  const std::set<int32_t> deciding = deciding_values(kernel, store, lets);
  for (const int32_t loop : writer.stage().sequential) {
    writer.open(
        fmt::format("RK_UNROLL_4 for ({0} i{1} = 0; i{1} < {2}; ++i{1})",
                    writer.index_type(), loop,
                    kernel.loops[static_cast<size_t>(loop)].extent));
  }
  for (const int32_t let : lets) {
    if (deciding.contains(let)) writer.let(let);
  }
  const std::string guard =
      store.guard < 0 ? "" : writer.expressions().name(store.guard) + " && ";
  writer.open(fmt::format("if ({}({}) == e)", guard,
                          writer.expressions().index(store.index)));
  for (const int32_t let : lets) {
    if (!deciding.contains(let)) writer.let(let);
  }
  const std::string value = writer.expressions().name(store.value);
  writer.line(
      fmt::format("x = {};", store.combine == Opcode::kParameter
                                 ? value
                                 : combined(store.combine, type, "x", value)));
  writer.close();
  for (size_t i = 0; i < writer.stage().sequential.size(); ++i) writer.close();
}

}  // namespace

PrintedLaunch print_owned(StageWriter& writer, const std::string& head,
                          const std::string& name) {
  const Kernel& kernel = writer.kernel();
  const KernelFacts facts(kernel, kernel, kernel.body);
  const KernelStatement& store = *facts.stores()[0].statement;
  const KernelArgument& output =
      kernel.arguments[static_cast<size_t>(store.target)];
  const StageAccumulator& accumulator = writer.stage().accumulators[0];
  const TypeNames names = names_of(output.type);
  PrintedLaunch launch;
  launch.block_threads = kThreads;
  launch.grid_blocks =
      static_cast<uint32_t>((output.elements + kThreads - 1) / kThreads);
  writer.open(fmt::format("RK_KERNEL({}, {}, {})", name, kThreads, head));
  writer.arguments();
  writer.open(fmt::format("RK_THREADS({})", kThreads));
  writer.line(fmt::format("const {0} e = ({0})RK_BLOCK * {1} + t;",
                          count_type(output.elements), kThreads));
  writer.open(fmt::format("if (e < {})", output.elements));
  writer.decode(
      writer.stage().parallel,
      fmt::format("(e % {})", iterations_of(kernel, writer.stage().parallel)));
  writer.line(fmt::format("{} x = {};", names.local,
                          accumulator.initial
                              ? literal_text(output.type, *accumulator.initial)
                              : fmt::format("({}){}(a{}[e])", names.local,
                                            names.load, store.target)));
  print_walk(writer, store, output.type);
  writer.line(fmt::format("a{}[e] = {}(x);", store.target, names.store));
  writer.close();
  writer.close();
  writer.close();
  return launch;
}

}  // namespace reprise
