// Nests without reductions by lanes: a thread for each parallel iteration.
#include <algorithm>

#include "runtime/kernels/kept_rows.h"
#include "runtime/kernels/print_cuda_stage.h"

namespace reprise {
namespace {

using Block = std::vector<KernelStatement>;
using Kind = KernelStatement::Kind;

/// From this many iterations on a thread takes several: at fewer, a device of
/// 130 multiprocessors of 2048 threads would not be full. Source: H100 data
/// sheet; to be measured.
constexpr int64_t kFourEach = int64_t{1} << 20;
constexpr int64_t kTwoEach = int64_t{1} << 19;
/// Values a thread may hold several times over without running out of
/// registers.
constexpr int kMaxWideValues = 24;

/// Statements by whether they stand in a loop, loops taken apart.
void flatten(const Block& block, bool inside, Block& uniform, Block& inner) {
  for (const KernelStatement& statement : block) {
    if (statement.kind == Kind::kLoop) {
      flatten(statement.body, true, uniform, inner);
    } else {
      (inside || statement.kind != Kind::kLet ? inner : uniform)
          .push_back(statement);
    }
  }
}

int64_t threads_for(int64_t iterations) {
  if (iterations >= 65536) return 256;
  return iterations >= 16384 ? 128 : 64;
}

int width_of(int64_t iterations, const Block& inner) {
  int lets = 0;
  bool stored = false;
  for (const KernelStatement& statement : inner) {
    lets += statement.kind == Kind::kLet ? 1 : 0;
    // Loads of later elements must not pass stores of earlier ones.
    if (statement.kind == Kind::kLet && stored) return 1;
    stored = stored || statement.kind == Kind::kStore;
  }
  if (lets > kMaxWideValues || iterations < kTwoEach) return 1;
  return iterations >= kFourEach ? 4 : 2;
}

void print_wide(StageWriter& writer, const Block& inner, int64_t total,
                int64_t threads) {
  const std::vector<int32_t>& loops = writer.stage().parallel;
  const char* count = count_type(total);
  writer.line(fmt::format("{} n[WIDTH];", count));
  writer.line(fmt::format(
      "RK_EACH(WIDTH) n[u] = first + t + u * {0} < {1} ? first + t + u * {0} "
      ": {2};",
      threads, total, total - 1));
  int64_t below = 1;
  for (size_t i = loops.size(); i-- > 0;) {
    const int64_t extent =
        writer.kernel().loops[static_cast<size_t>(loops[i])].extent;
    writer.line(fmt::format("{} i{}[WIDTH];", writer.index_type(), loops[i]));
    const std::string whole = fmt::format("n[u] / {}", below);
    writer.line(fmt::format(
        "RK_EACH(WIDTH) i{}[u] = ({})({});", loops[i], writer.index_type(),
        i > 0 ? fmt::format("{} % {}", whole, extent) : whole));
    below *= extent;
  }
  for (const KernelStatement& statement : inner) {
    if (statement.kind == Kind::kLet) {
      writer.let(statement.value);
      continue;
    }
    const std::string place = writer.place_of(statement);
    const std::string guard =
        statement.guard < 0
            ? ""
            : " && " + writer.expressions().name(statement.guard);
    writer.line(fmt::format(
        "RK_EACH(WIDTH) if (first + t + u * {} < {}{}) {} = {};", threads,
        total, guard, place, writer.stored(statement, place)));
  }
}

/// Where the kernel runs in place, threads of elements that keep their value
/// have nothing to do.
std::string changes(StageWriter& writer, const KeptRows& kept) {
  std::string text = writer.expressions().name(kept.changed);
  for (const auto& [input, output] : kept.in_place)
    text += fmt::format(" || (const void*)p{} != (void*)p{}", input, output);
  return text;
}

void print_narrow(StageWriter& writer, const Block& inner, int64_t total,
                  const std::optional<KeptRows>& kept) {
  writer.open(fmt::format("if (first + t < {})", total));
  writer.line(fmt::format("const {} n = first + t;", count_type(total)));
  writer.decode(writer.stage().parallel, "n");
  bool is_kept = false;
  for (const KernelStatement& statement : inner) {
    if (statement.kind != Kind::kLet) {
      writer.store(statement);
      continue;
    }
    writer.let(statement.value);
    if (!kept || statement.value != kept->changed) continue;
    writer.open(fmt::format("if ({})", changes(writer, *kept)));
    is_kept = true;
  }
  if (is_kept) writer.close();
  writer.close();
}

/// Of a stage whose elements are the kernel's own arguments.
std::optional<KeptRows> kept_in_place(const StageWriter& writer) {
  std::optional<KeptRows> kept =
      kept_elements(writer.kernel(), writer.kernel().body);
  const auto is_own = [&](int32_t argument) {
    return static_cast<size_t>(argument) < writer.argument_count();
  };
  if (kept && !std::ranges::all_of(kept->in_place, [&](const auto& pair) {
        return is_own(pair.first) && is_own(pair.second);
      }))
    kept.reset();
  return kept;
}

/// One stage's part of a launch.
class MapPrinter {
 public:
  explicit MapPrinter(StageWriter& writer) : writer_(writer) {
    flatten(writer.kernel().body, false, uniform_, inner_);
    total_ = iterations_of(writer.kernel(), writer.stage().parallel);
    kept_ = kept_in_place(writer);
    width_ = kept_ ? 1 : width_of(total_, inner_);
  }

  int64_t threads() const { return total_ == 1 ? 1 : threads_for(total_); }
  int64_t blocks(int64_t threads) const {
    const int64_t each = threads * width_;
    return std::min((total_ + each - 1) / each, kMaxBlocks);
  }

  /// In blocks from `first_block` on; `block`: the name of a block's number.
  void print(int64_t threads, const char* block, int64_t first_block) {
    writer_.arguments();
    for (const KernelStatement& statement : uniform_)
      writer_.let(statement.value);
    const char* count = count_type(total_);
    const int64_t each = threads * width_;
    writer_.open(fmt::format(
        "for ({0} first = ({0})({5} - {1}) * {2}; first < "
        "{3}; first += ({0}){4})",
        count, first_block, each, total_, blocks(threads) * each, block));
    writer_.open(fmt::format("RK_THREADS({})", threads));
    if (width_ > 1) {
      writer_.line(fmt::format("constexpr int WIDTH = {};", width_));
      widen();
      print_wide(writer_, inner_, total_, threads);
    } else {
      print_narrow(writer_, inner_, total_, kept_);
    }
    writer_.close();
    writer_.close();
  }

 private:
  void widen() {
    ExpressionPrinter& wide = writer_.expressions();
    for (const int32_t loop : writer_.stage().parallel)
      wide.wide_loops[static_cast<size_t>(loop)] = true;
    for (const KernelStatement& statement : inner_) {
      if (statement.kind == Kind::kLet)
        wide.wide_values[static_cast<size_t>(statement.value)] = true;
    }
  }

  StageWriter& writer_;
  Block uniform_, inner_;
  int64_t total_ = 1;
  std::optional<KeptRows> kept_;
  int width_ = 1;
};

}  // namespace

PrintedLaunch print_maps(std::vector<StageWriter>& writers,
                         const std::string& head, const std::string& name,
                         std::string& text) {
  int64_t threads = 1, blocks = 0;
  std::vector<MapPrinter> printers;
  for (StageWriter& writer : writers) {
    printers.emplace_back(writer);
    threads = std::max(threads, printers.back().threads());
  }
  const bool is_alone = writers.size() == 1;
  PrintedLaunch launch;
  text += fmt::format("RK_KERNEL({}, {}, {}) {{\n", name, threads, head);
  // A part may be launched alone: then its blocks are counted from here on.
  if (!is_alone) {
    text += fmt::format("const int block = RK_BLOCK + (int)(rk_s64)p{};\n",
                        writers[0].argument_count() + 1);
  }
  for (size_t i = 0; i < writers.size(); ++i) {
    const int64_t own = printers[i].blocks(threads);
    if (!is_alone) {
      text += fmt::format("if (block >= {} && block < {}) {{\n", blocks,
                          blocks + own);
      launch.parts.push_back({.first_block = static_cast<uint32_t>(blocks),
                              .stored = {},
                              .used = {}});
    }
    printers[i].print(threads, is_alone ? "RK_BLOCK" : "block", blocks);
    text += writers[i].take();
    if (!is_alone) text += "}\n";
    blocks += own;
  }
  text += "}\n";
  launch.block_threads = static_cast<uint32_t>(threads);
  launch.grid_blocks = static_cast<uint32_t>(blocks);
  return launch;
}

namespace {

void print_statements(StageWriter& writer, const Block& block);

void print_lane_statement(StageWriter& writer,
                          const KernelStatement& statement) {
  const KernelAccumulator& accumulator =
      writer.kernel().accumulators[static_cast<size_t>(statement.target)];
  const std::string place = fmt::format("r{}[i{} % {}]", statement.target,
                                        accumulator.lane_loop, kLanes);
  writer.line(
      fmt::format("{} = {};", place,
                  combined(accumulator.combine, accumulator.type, place,
                           writer.expressions().name(statement.value))));
}

void print_serial_total(StageWriter& writer, int32_t value) {
  const KernelValue& node = writer.kernel().values[static_cast<size_t>(value)];
  const KernelAccumulator& accumulator =
      writer.kernel().accumulators[static_cast<size_t>(node.source)];
  const std::string own = fmt::format("r{}[l]", node.source);
  writer.line(fmt::format(
      "for (int w = {}; w > 0; w /= 2) for (int l = 0; l < w; ++l) {} = {};",
      kLanes / 2, own,
      combined(accumulator.combine, node.type, own,
               fmt::format("r{}[l + w]", node.source))));
  writer.line(fmt::format("const {} v{} = r{}[0];", names_of(node.type).local,
                          value, node.source));
}

void print_statement(StageWriter& writer, const KernelStatement& statement) {
  const Kernel& kernel = writer.kernel();
  switch (statement.kind) {
    case Kind::kLet:
      if (kernel.values[static_cast<size_t>(statement.value)].kind ==
          KernelValue::Kind::kTotal) {
        print_serial_total(writer, statement.value);
      } else {
        writer.let(statement.value);
      }
      break;
    case Kind::kLoop:
      writer.open(fmt::format(
          "for ({0} i{1} = 0; i{1} < {2}; ++i{1})", writer.index_type(),
          statement.target,
          kernel.loops[static_cast<size_t>(statement.target)].extent));
      print_statements(writer, statement.body);
      writer.close();
      break;
    case Kind::kReset:
      writer.line(fmt::format("for (int l = 0; l < {}; ++l) r{}[l] = {};",
                              kLanes, statement.target,
                              writer.identity(statement.target)));
      break;
    case Kind::kAccumulate:
      print_lane_statement(writer, statement);
      break;
    case Kind::kStore:
      writer.store(statement);
      break;
    case Kind::kScratchStore:
      writer.line(fmt::format("s{}[{}] = v{};", statement.target,
                              writer.expressions().index(statement.index),
                              statement.value));
      break;
  }
}

void print_statements(StageWriter& writer, const Block& block) {
  for (const KernelStatement& statement : block)
    print_statement(writer, statement);
}

}  // namespace

PrintedLaunch print_serial(StageWriter& writer, const std::string& head,
                           const std::string& name) {
  const Kernel& kernel = writer.kernel();
  writer.open(fmt::format("RK_KERNEL({}, 1, {})", name, head));
  writer.arguments();
  for (size_t i = 0; i < kernel.scratches.size(); ++i) {
    const KernelScratch& scratch = kernel.scratches[i];
    writer.line(fmt::format("{} s{}[{}];", names_of(scratch.type).local, i,
                            scratch.elements));
  }
  for (size_t i = 0; i < kernel.accumulators.size(); ++i) {
    writer.line(fmt::format(
        "{} r{}[{}];", names_of(kernel.accumulators[i].type).local, i, kLanes));
  }
  print_statements(writer, kernel.body);
  writer.close();
  return {};
}

}  // namespace reprise
