// Nests with reductions by lanes: kLanes threads a row, or a block a row.
#include <algorithm>
#include <set>

#include "runtime/kernels/print_cuda_stage.h"

namespace reprise {
namespace {

using Block = std::vector<KernelStatement>;
using Kind = KernelStatement::Kind;

constexpr int64_t kTeams = 8;  ///< Rows at once in a block of kRows.
constexpr int64_t kMaxTile = 4096;

/// Accumulators that a phase fills, in order.
void find_accumulated(const Block& block, std::vector<int32_t>& found) {
  for (const KernelStatement& statement : block) {
    if (statement.kind == Kind::kAccumulate) found.push_back(statement.target);
    find_accumulated(statement.body, found);
  }
}

void find_scratches(const Block& block, std::set<int32_t>& found) {
  for (const KernelStatement& statement : block) {
    if (statement.kind == Kind::kScratchStore) found.insert(statement.target);
    find_scratches(statement.body, found);
  }
}

int64_t element_bytes(const Kernel& kernel, int32_t accumulator) {
  const PrimitiveType type =
      kernel.accumulators[static_cast<size_t>(accumulator)].type;
  return primitive_type_bits(type) == 64 ? 8 : 4;  // As a local, at most.
}

/// Prints the rows of a stage, by kLanes threads or by blocks.
class RowPrinter {
 public:
  RowPrinter(StageWriter& writer, bool blocks)
      : writer_(writer), kernel_(writer.kernel()), blocks_(blocks) {
    columns_ = iterations_of(kernel_, writer.stage().columns);
    rows_ = iterations_of(kernel_, writer.stage().parallel);
    threads_ = kLanes;
    if (blocks) threads_ = columns_ >= 2048 ? 256 : 128;
  }
  PrintedLaunch print(const std::string& head, const std::string& name);

 private:
  void declare_shared(const Block& block);
  void declare_scratches();
  void path(const Block& block, size_t depth);
  void row_statement(const KernelStatement& statement);
  void reset(int32_t accumulator);
  void row_total(int32_t value);
  void block_total(int32_t value);
  void row_phase(const KernelStatement& loop);
  void row_columns(const KernelStatement& loop, std::string_view place);
  void block_phase(const KernelStatement& loop);
  void block_columns(const Block& block);
  void column_statement(const KernelStatement& statement);
  int64_t tile_of(const std::vector<int32_t>& accumulated) const;
  std::string region() const {
    return blocks_ ? fmt::format("RK_THREADS({})", threads_) : "RK_LANES";
  }
  void sync() { writer_.line(blocks_ ? "RK_SYNC();" : "RK_TEAM_SYNC();"); }
  int64_t extent_of(int32_t loop) const {
    return kernel_.loops[static_cast<size_t>(loop)].extent;
  }

  StageWriter& writer_;
  const Kernel& kernel_;
  bool blocks_;
  int64_t rows_ = 1, columns_ = 1, threads_ = kLanes;
  bool uses_scratches_ = false;
};

/// Columns whose values wait in shared memory at once, a multiple of the
/// threads.
int64_t RowPrinter::tile_of(const std::vector<int32_t>& accumulated) const {
  int64_t bytes = 0;
  for (const int32_t id : accumulated) bytes += element_bytes(kernel_, id);
  const int64_t most = std::min(kMaxTile, kTileBytes / bytes);
  return std::max(most / threads_, int64_t{1}) * threads_;
}

void RowPrinter::declare_shared(const Block& block) {
  int64_t bytes = 0;
  const auto measure = [&](auto&& self, const Block& statements) -> void {
    for (const KernelStatement& statement : statements) {
      if (statement.kind == Kind::kReset) {
        writer_.line(fmt::format("RK_SHARED({}, h{}, {});",
                                 writer_.local_of(statement.target),
                                 statement.target, kLanes));
      }
      if (statement.kind != Kind::kLoop) continue;
      std::vector<int32_t> accumulated;
      find_accumulated(statement.body, accumulated);
      int64_t phase = 0;
      for (const int32_t id : accumulated)
        phase += element_bytes(kernel_, id) * tile_of(accumulated);
      bytes = std::max(bytes, phase);
      self(self, statement.body);
    }
  };
  // Above the rows a loop holds all phases: too much, so measure them alone.
  const Block* rows = &block;
  for (size_t depth = 0; depth < writer_.stage().parallel.size(); ++depth) {
    rows = &std::find_if(rows->begin(), rows->end(), [](const auto& s) {
              return s.kind == Kind::kLoop;
            })->body;
  }
  measure(measure, *rows);
  writer_.line(
      fmt::format("RK_SHARED_BYTES(shared, {});", (bytes + 7) / 8 * 8));
}

void RowPrinter::declare_scratches() {
  std::set<int32_t> used;
  find_scratches(kernel_.body, used);
  uses_scratches_ = !used.empty();
  writer_.scratch_place = "q";
  const int64_t minor = extent_of(writer_.stage().columns.back());
  // A thread keeps the columns that are its own.
  const int64_t own = blocks_
                          ? (columns_ + threads_ - 1) / threads_
                          : columns_ / minor * ((minor + kLanes - 1) / kLanes);
  for (const int32_t id : used) {
    writer_.line(fmt::format(
        "RK_PRIVATE_ARRAY({}, {}, s{}, {});", threads_,
        names_of(kernel_.scratches[static_cast<size_t>(id)].type).local, id,
        own));
  }
}

PrintedLaunch RowPrinter::print(const std::string& head,
                                const std::string& name) {
  PrintedLaunch launch;
  const int64_t teams = blocks_ ? 1 : kTeams;
  launch.block_threads = static_cast<uint32_t>(teams * threads_);
  launch.grid_blocks =
      static_cast<uint32_t>(std::min((rows_ + teams - 1) / teams, kMaxBlocks));
  writer_.open(
      fmt::format("RK_KERNEL({}, {}, {})", name, launch.block_threads, head));
  writer_.arguments();
  if (blocks_) declare_shared(kernel_.body);
  const std::string stride = fmt::format(
      "for ({0} row = ({0})RK_BLOCK * {1}{2}; row < {3}; row += "
      "({0})RK_BLOCKS * {1})",
      count_type(rows_), teams, blocks_ ? "" : " + team", rows_);
  if (!blocks_) writer_.open(fmt::format("RK_TEAMS({})", teams));
  writer_.open(stride);
  writer_.decode(writer_.stage().parallel, "row");
  declare_scratches();
  path(kernel_.body, 0);
  writer_.close();
  if (!blocks_) writer_.close();
  writer_.close();
  return launch;
}

void RowPrinter::path(const Block& block, size_t depth) {
  const bool above = depth < writer_.stage().parallel.size();
  for (const KernelStatement& statement : block) {
    if (above && statement.kind == Kind::kLoop) {
      path(statement.body, depth + 1);
    } else {
      row_statement(statement);
    }
  }
}

void RowPrinter::row_statement(const KernelStatement& statement) {
  switch (statement.kind) {
    case Kind::kLet:
      if (kernel_.values[static_cast<size_t>(statement.value)].kind !=
          KernelValue::Kind::kTotal) {
        writer_.let(statement.value);
      } else if (blocks_) {
        block_total(statement.value);
      } else {
        row_total(statement.value);
      }
      break;
    case Kind::kReset:
      reset(statement.target);
      break;
    case Kind::kLoop:
      if (blocks_) {
        block_phase(statement);
      } else {
        row_phase(statement);
      }
      break;
    default:
      // Other threads may have yet to load the old element.
      sync();
      writer_.open(blocks_ ? "RK_FIRST_THREAD" : "RK_FIRST_LANE");
      writer_.store(statement);
      writer_.close();
  }
}

void RowPrinter::reset(int32_t accumulator) {
  writer_.line(fmt::format("RK_PRIVATE({}, {}, r{});", threads_,
                           writer_.local_of(accumulator), accumulator));
  writer_.line(fmt::format("{} RK_OWN(r{}) = {};", region(), accumulator,
                           writer_.identity(accumulator)));
}

void RowPrinter::row_total(int32_t value) {
  const KernelValue& node = kernel_.values[static_cast<size_t>(value)];
  const char* local = names_of(node.type).local;
  const Opcode combine =
      kernel_.accumulators[static_cast<size_t>(node.source)].combine;
  for (int width = kLanes / 2; width > 0; width /= 2) {
    writer_.line(fmt::format(
        "RK_HALVE({}, r{}, {}, {})", local, node.source, width,
        combined(combine, node.type, fmt::format("RK_OWN(r{})", node.source),
                 "rk_other")));
  }
  writer_.line(fmt::format("const {0} v{1} = RK_OF_FIRST({0}, r{2});", local,
                           value, node.source));
}

/// Every thread halves the lanes by itself: cheaper than to hand the total
/// round.
void RowPrinter::block_total(int32_t value) {
  const KernelValue& node = kernel_.values[static_cast<size_t>(value)];
  const char* local = names_of(node.type).local;
  const Opcode combine =
      kernel_.accumulators[static_cast<size_t>(node.source)].combine;
  writer_.line(
      fmt::format("RK_THREADS({0}) if (t < {1}) h{2}[t] = "
                  "RK_OWN(r{2});",
                  threads_, kLanes, node.source));
  sync();
  writer_.line(fmt::format("{} v{};", local, value));
  writer_.open("");
  writer_.line(fmt::format("{} x[{}];", local, kLanes));
  writer_.line(
      fmt::format("RK_UNROLL for (int l = 0; l < {}; ++l) x[l] = "
                  "h{}[l];",
                  kLanes, node.source));
  for (int width = kLanes / 2; width > 0; width /= 2) {
    writer_.line(fmt::format(
        "RK_UNROLL for (int l = 0; l < {}; ++l) x[l] = {};", width,
        combined(combine, node.type, "x[l]", fmt::format("x[l + {}]", width))));
  }
  writer_.line(fmt::format("v{} = x[0];", value));
  writer_.close();
}

void RowPrinter::row_phase(const KernelStatement& loop) {
  writer_.open("RK_LANES");
  row_columns(loop, "0");
  writer_.close();
  sync();
}

void RowPrinter::row_columns(const KernelStatement& loop,
                             std::string_view place) {
  const bool lanes = loop.target == writer_.stage().columns.back();
  const int64_t extent = extent_of(loop.target);
  writer_.open(fmt::format("for ({0} i{1} = {2}; i{1} < {3}; i{1} += {4})",
                           writer_.index_type(), loop.target, lanes ? "t" : "0",
                           extent, lanes ? kLanes : 1));
  if (lanes && uses_scratches_) {
    writer_.line(fmt::format("const int q = (int)(({}) * {} + i{} / {});",
                             place, (extent + kLanes - 1) / kLanes, loop.target,
                             kLanes));
  }
  const std::string below =
      fmt::format("({}) * {} + i{}", place, extent, loop.target);
  for (const KernelStatement& statement : loop.body) {
    if (statement.kind == Kind::kLoop) {
      row_columns(statement, below);
    } else if (statement.kind == Kind::kAccumulate) {
      const KernelAccumulator& accumulator =
          kernel_.accumulators[static_cast<size_t>(statement.target)];
      const std::string own = fmt::format("RK_OWN(r{})", statement.target);
      writer_.line(
          fmt::format("{} = {};", own,
                      combined(accumulator.combine, accumulator.type, own,
                               writer_.expressions().name(statement.value))));
    } else {
      column_statement(statement);
    }
  }
  writer_.close();
}

void RowPrinter::column_statement(const KernelStatement& statement) {
  switch (statement.kind) {
    case Kind::kLet:
      writer_.let(statement.value);
      break;
    case Kind::kStore:
      writer_.store(statement);
      break;
    case Kind::kScratchStore:
      writer_.line(fmt::format("RK_OWN(s{})[q] = {};", statement.target,
                               writer_.expressions().name(statement.value)));
      break;
    default:  // Accumulation of a block: its lane takes it later.
      writer_.line(fmt::format("g{}[c - tile] = {};", statement.target,
                               writer_.expressions().name(statement.value)));
  }
}

void RowPrinter::block_columns(const Block& block) {
  for (const KernelStatement& statement : block) {
    if (statement.kind == Kind::kLoop) {
      block_columns(statement.body);
    } else {
      column_statement(statement);
    }
  }
}

/// Tile by tile: all threads compute elements, then kLanes of them take the
/// elements of their lane in order.
void RowPrinter::block_phase(const KernelStatement& loop) {
  std::vector<int32_t> accumulated;
  find_accumulated(loop.body, accumulated);
  const int64_t tile = accumulated.empty() ? columns_ : tile_of(accumulated);
  const char* count = count_type(columns_ + tile);
  writer_.open(fmt::format("for ({0} tile = 0; tile < {1}; tile += {2})", count,
                           columns_, tile));
  int64_t offset = 0;
  for (const int32_t id : accumulated) {
    writer_.line(fmt::format("RK_PART({}, g{}, shared, {});",
                             writer_.local_of(id), id, offset));
    offset += tile * element_bytes(kernel_, id);
  }
  writer_.line(fmt::format("const {} end = tile + {} < {} ? tile + {} : {};",
                           count, tile, columns_, tile, columns_));
  writer_.open(
      fmt::format("RK_THREADS({0}) for ({1} c = tile + t; c < end; c "
                  "+= {0})",
                  threads_, count));
  if (uses_scratches_)
    writer_.line(fmt::format("const int q = (int)(c / {});", threads_));
  writer_.decode(writer_.stage().columns, "c");
  block_columns(loop.body);
  writer_.close();
  sync();
  if (!accumulated.empty()) {
    writer_.open(fmt::format("RK_THREADS({}) if (t < {})", threads_, kLanes));
    writer_.open(fmt::format(
        "RK_UNROLL_8 for ({} c = t; c < end - tile; c += {})", count, kLanes));
    for (const int32_t id : accumulated) {
      const KernelAccumulator& accumulator =
          kernel_.accumulators[static_cast<size_t>(id)];
      const std::string own = fmt::format("RK_OWN(r{})", id);
      writer_.line(fmt::format(
          "{} = {};", own,
          combined(accumulator.combine, accumulator.type, own,
                   fmt::format("({})g{}[c]", writer_.local_of(id), id))));
    }
    writer_.close();
    writer_.close();
    sync();
  }
  writer_.close();
}

}  // namespace

PrintedLaunch print_rows(StageWriter& writer, const std::string& head,
                         const std::string& name) {
  return RowPrinter(writer, false).print(head, name);
}

PrintedLaunch print_blocks(StageWriter& writer, const std::string& head,
                           const std::string& name) {
  return RowPrinter(writer, true).print(head, name);
}

}  // namespace reprise
