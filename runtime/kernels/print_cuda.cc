// Prints each stage by the mapping that its plan chose, and puts the launches
// of a kernel together: neighbouring elementwise stages that do not need each
// other become one launch, a range of blocks each.
#include "runtime/kernels/print_cuda.h"

#include <set>
#include <utility>

#include "data/kernel/group.h"
#include "runtime/kernels/prelude_text.h"
#include "runtime/kernels/print_cuda_facts.h"
#include "runtime/kernels/print_cuda_stage.h"
#include "runtime/kernels/print_cuda_stages.h"

namespace reprise {
namespace {

using Kind = KernelStatement::Kind;

/// Arguments that statements load from or store to.
void add_used(const Kernel& kernel, const std::vector<KernelStatement>& block,
              std::set<int32_t>& used) {
  for (const KernelStatement& statement : block) {
    if (statement.kind == Kind::kStore) used.insert(statement.target);
    if (statement.kind == Kind::kLet) {
      const KernelValue& value =
          kernel.values[static_cast<size_t>(statement.value)];
      if (value.kind == KernelValue::Kind::kLoad) used.insert(value.source);
    }
    add_used(kernel, statement.body, used);
  }
}

}  // namespace

const char* count_type(int64_t count) {
  return count < (int64_t{1} << 30) ? "int" : "rk_s64";
}

StageWriter::StageWriter(const CudaStage& stage, const Kernel& original,
                         const std::vector<int64_t>& workspace_offsets)
    : stage_(stage),
      arguments_(original.arguments.size()),
      workspace_offsets_(workspace_offsets),
      expressions_(stage.kernel) {
  for (size_t input = 0; input < arguments_; ++input) {
    // Of single bytes, constant loads made ptxas 13.0 spill.
    const KernelArgument& argument = original.arguments[input];
    bool constant =
        !argument.is_output && primitive_type_bits(argument.type) > 8;
    for (size_t output = 0; constant && output < arguments_; ++output)
      constant = !in_place_safe(original, input, output);
    constant_.push_back(constant);
  }
}

void StageWriter::line(std::string_view text) {
  text_.append(2 * depth_, ' ');
  text_ += text;
  text_ += '\n';
}

void StageWriter::open(std::string_view text) {
  line(fmt::format("{}{}", text, text.empty() ? "{" : " {"));
  ++depth_;
}

void StageWriter::close() {
  --depth_;
  line("}");
}

void StageWriter::arguments() {
  std::set<int32_t> used;
  add_used(kernel(), kernel().body, used);
  for (const int32_t id : used) {
    const size_t a = static_cast<size_t>(id);
    const KernelArgument& argument = kernel().arguments[a];
    const char* memory = names_of(argument.type).memory;
    if (a >= arguments_) {
      line(fmt::format("{0}* a{1} = ({0}*)((char*)p{2} + {3});", memory, a,
                       arguments_, workspace_offsets_[a - arguments_]));
    } else {
      const char* constant = argument.is_output ? "" : "const ";
      line(fmt::format("{0}{1}* a{2} = ({0}{1}*)p{2};", constant, memory, a));
    }
  }
}

void StageWriter::decode(const std::vector<int32_t>& loops,
                         const std::string& position) {
  int64_t below = 1;
  for (size_t i = loops.size(); i-- > 0;) {
    const int64_t extent = kernel().loops[static_cast<size_t>(loops[i])].extent;
    std::string text = position;
    if (below > 1) text += fmt::format(" / {}", below);
    if (i > 0) text = fmt::format("({}) % {}", text, extent);
    line(fmt::format("const {0} i{1} = ({0})({2});", index_type(), loops[i],
                     text));
    below *= extent;
  }
}

std::string StageWriter::value_text(const KernelValue& value) const {
  const TypeNames names = names_of(value.type);
  switch (value.kind) {
    case KernelValue::Kind::kLiteral:
      return literal_text(value.type, value.literal);
    case KernelValue::Kind::kLoad:
      if (static_cast<size_t>(value.source) >= arguments_ ||
          !constant_[static_cast<size_t>(value.source)]) {
        return expressions_.load(value);
      }
      return fmt::format("{}(RK_LOAD(a{}, {}))", names.load, value.source,
                         expressions_.index(value.index));
    case KernelValue::Kind::kScratch:
      return scratch_place.empty()
                 ? fmt::format("s{}[{}]", value.source,
                               expressions_.index(value.index))
                 : fmt::format("RK_OWN(s{})[{}]", value.source, scratch_place);
    case KernelValue::Kind::kIndex:
      return rounded(value.type, fmt::format("rk_to_{}({})", names.suffix,
                                             expressions_.index(value.index)));
    default:
      return expressions_.apply(value);
  }
}

void StageWriter::let(int32_t value) {
  const KernelValue& node = kernel().values[static_cast<size_t>(value)];
  const char* local = names_of(node.type).local;
  if (!expressions_.wide_values[static_cast<size_t>(value)]) {
    line(fmt::format("const {} v{} = {};", local, value, value_text(node)));
    return;
  }
  line(fmt::format("{} v{}[WIDTH];", local, value));
  line(fmt::format("RK_EACH(WIDTH) {} = {};", expressions_.name(value),
                   value_text(node)));
}

std::string StageWriter::place_of(const KernelStatement& store) const {
  return fmt::format("a{}[{}]", store.target, expressions_.index(store.index));
}

std::string StageWriter::stored(const KernelStatement& store,
                                const std::string& place) {
  const PrimitiveType type =
      kernel().arguments[static_cast<size_t>(store.target)].type;
  const TypeNames names = names_of(type);
  std::string text = expressions_.name(store.value);
  if (store.combine != Opcode::kParameter) {
    text = combined(store.combine, type,
                    fmt::format("({}){}({})", names.local, names.load, place),
                    text);
  }
  return fmt::format("{}({})", names.store, text);
}

void StageWriter::store(const KernelStatement& store) {
  const std::string place = place_of(store);
  const std::string guard =
      store.guard < 0 ? ""
                      : fmt::format("if ({}) ", expressions_.name(store.guard));
  line(fmt::format("{}{} = {};", guard, place, stored(store, place)));
}

std::string StageWriter::identity(int32_t accumulator) const {
  const KernelAccumulator& lanes =
      kernel().accumulators[static_cast<size_t>(accumulator)];
  return literal_text(lanes.type, identity_bits(lanes.combine, lanes.type));
}

const char* StageWriter::local_of(int32_t accumulator) const {
  return names_of(kernel().accumulators[static_cast<size_t>(accumulator)].type)
      .local;
}

namespace {

/// Stages of one launch: at most so many.
constexpr size_t kMostTogether = 16;

std::set<int32_t> arguments_of(const CudaStage& stage, bool outputs) {
  std::set<int32_t> all, stored;
  add_used(stage.kernel, stage.kernel.body, all);
  const KernelFacts facts(stage.kernel, stage.kernel, stage.kernel.body);
  for (const StorePlace& place : facts.stores())
    stored.insert(place.statement->target);
  return outputs ? stored : all;
}

/// True if neither uses what the other stores; their arguments may still turn
/// out to share memory.
bool are_independent(const CudaStage& a, const CudaStage& b) {
  for (const auto& [storing, using_] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    const std::set<int32_t> used = arguments_of(*using_, false);
    for (const int32_t stored : arguments_of(*storing, true)) {
      if (used.contains(stored)) return false;
    }
  }
  return true;
}

/// How many stages from `first` on may share a launch.
size_t stages_together(const CudaPlan& plan, size_t first) {
  size_t end = first + 1;
  if (plan.stages[first].mapping != StageMapping::kMap) return 1;
  while (end < plan.stages.size() && end - first < kMostTogether &&
         plan.stages[end].mapping == StageMapping::kMap) {
    for (size_t i = first; i < end; ++i) {
      if (!are_independent(plan.stages[i], plan.stages[end]))
        return end - first;
    }
    ++end;
  }
  return end - first;
}

/// Without the workspace's.
std::vector<int32_t> own_arguments(const Kernel& kernel, const CudaStage& stage,
                                   bool outputs) {
  std::vector<int32_t> own;
  for (const int32_t id : arguments_of(stage, outputs)) {
    if (static_cast<size_t>(id) < kernel.arguments.size()) own.push_back(id);
  }
  return own;
}

PrintedLaunch print_alone(StageWriter& writer, const std::string& head,
                          const std::string& name) {
  switch (writer.stage().mapping) {
    case StageMapping::kRows:
      return print_rows(writer, head, name);
    case StageMapping::kBlocks:
      return print_blocks(writer, head, name);
    case StageMapping::kOrdered:
      return print_ordered(writer, head, name);
    case StageMapping::kOwned:
      return print_owned(writer, head, name);
    case StageMapping::kTiled:
      return print_tiled(writer, head, name);
    default:
      return print_serial(writer, head, name);
  }
}

}  // namespace

PrintedCudaKernel print_cuda_kernel(const Kernel& kernel,
                                    std::string_view name) {
  const CudaPlan plan = plan_cuda_stages(kernel);
  PrintedCudaKernel printed;
  printed.workspace_bytes = plan.workspace_bytes;
  std::string parameters;
  for (size_t i = 0; i <= kernel.arguments.size() + 1; ++i)
    parameters += fmt::format("{}void* p{}", i > 0 ? ", " : "", i);
  for (size_t first = 0; first < plan.stages.size();) {
    const size_t count = stages_together(plan, first);
    std::vector<StageWriter> writers;
    for (size_t i = first; i < first + count; ++i) {
      writers.emplace_back(plan.stages[i], kernel, plan.workspace_offsets);
    }
    const std::string entry =
        fmt::format("{}_{}", name, printed.launches.size());
    PrintedLaunch launch;
    if (plan.stages[first].mapping == StageMapping::kMap) {
      launch = print_maps(writers, parameters, entry, printed.text);
    } else {
      launch = print_alone(writers[0], parameters, entry);
      printed.text += writers[0].take();
    }
    for (size_t i = 0; i < launch.parts.size(); ++i) {
      launch.parts[i].stored =
          own_arguments(kernel, plan.stages[first + i], true);
      launch.parts[i].used =
          own_arguments(kernel, plan.stages[first + i], false);
    }
    printed.text += fmt::format("RK_ENTRY({})\n", entry);
    launch.entry = entry;
    printed.launches.push_back(std::move(launch));
    first += count;
  }
  return printed;
}

std::string cuda_prelude() {
  return std::string(kCudaPreludeText) + std::string(kPreludeText);
}

}  // namespace reprise
