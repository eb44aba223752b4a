// Nests with iterations that one element must see in order: reductions by
// columns, scatters.
#include <algorithm>

#include "runtime/kernels/print_cuda_stage.h"

namespace reprise {
namespace {

using Block = std::vector<KernelStatement>;
using Kind = KernelStatement::Kind;

constexpr int64_t kTileThreads = 256;
/// Columns of a tile: fewer where that keeps more multiprocessors busy, but a
/// 32-byte sector of memory at least.
constexpr int64_t kMostColumns = 32, kFewestColumns = 8, kEnoughBlocks = 128;

class OrderedPrinter {
 public:
  explicit OrderedPrinter(StageWriter& writer)
      : writer_(writer), kernel_(writer.kernel()) {
    flatten(kernel_.body);
    parallel_ = iterations_of(kernel_, writer.stage().parallel);
    sequential_ = iterations_of(kernel_, writer.stage().sequential);
  }
  PrintedLaunch print_ordered(const std::string& head, const std::string& name);
  PrintedLaunch print_tiled(const std::string& head, const std::string& name);

 private:
  struct Register {
    const KernelStatement* store = nullptr;
    StageAccumulator accumulator;
    PrimitiveType type = PrimitiveType::kF32;
  };
  void flatten(const Block& block);
  void start(size_t i);
  void finish(size_t i);
  std::string next(size_t i, const std::string& added) const;
  std::string own(size_t i) const { return fmt::format("RK_OWN(x{})", i); }
  void inner(bool tiled);
  void tile_regions(int64_t columns, int64_t tile);

  StageWriter& writer_;
  const Kernel& kernel_;
  /// All but loops, in order.
  std::vector<const KernelStatement*> statements_;
  std::vector<Register> registers_;
  int64_t parallel_ = 1, sequential_ = 1;
};

void OrderedPrinter::flatten(const Block& block) {
  for (const KernelStatement& statement : block) {
    if (statement.kind == Kind::kLoop) {
      flatten(statement.body);
      continue;
    }
    statements_.push_back(&statement);
    if (statement.kind != Kind::kStore) continue;
    for (const StageAccumulator& accumulator : writer_.stage().accumulators) {
      if (accumulator.target != statement.target) continue;
      registers_.push_back(
          {&statement, accumulator,
           kernel_.arguments[static_cast<size_t>(statement.target)].type});
    }
  }
}

void OrderedPrinter::start(size_t i) {
  const Register& held = registers_[i];
  const TypeNames names = names_of(held.type);
  writer_.line(
      fmt::format("{} = {};", own(i),
                  held.accumulator.initial
                      ? literal_text(held.type, *held.accumulator.initial)
                      : fmt::format("({}){}({})", names.local, names.load,
                                    writer_.place_of(*held.store))));
}

void OrderedPrinter::finish(size_t i) {
  const Register& held = registers_[i];
  writer_.line(fmt::format("{} = {}({});", writer_.place_of(*held.store),
                           names_of(held.type).store, own(i)));
}

std::string OrderedPrinter::next(size_t i, const std::string& added) const {
  return fmt::format("{} = {};", own(i),
                     combined(registers_[i].store->combine, registers_[i].type,
                              own(i), added));
}

/// The statements of one iteration. Tiled, accumulated values wait in g.
void OrderedPrinter::inner(bool tiled) {
  size_t next_register = 0;
  for (const KernelStatement* statement : statements_) {
    if (statement->kind == Kind::kLet) {
      writer_.let(statement->value);
    } else if (next_register < registers_.size() &&
               registers_[next_register].store == statement) {
      const size_t i = next_register++;
      const std::string value = writer_.expressions().name(statement->value);
      writer_.line(tiled ? fmt::format("g{}[at] = {};", i, value)
                         : next(i, value));
    } else {
      writer_.store(*statement);
    }
  }
}

PrintedLaunch OrderedPrinter::print_ordered(const std::string& head,
                                            const std::string& name) {
  PrintedLaunch launch;
  const int64_t threads = parallel_ >= 16384 ? 128 : parallel_ > 1 ? 32 : 1;
  launch.block_threads = static_cast<uint32_t>(threads);
  launch.grid_blocks =
      static_cast<uint32_t>((parallel_ + threads - 1) / threads);
  writer_.open(fmt::format("RK_KERNEL({}, {}, {})", name, threads, head));
  writer_.arguments();
  for (size_t i = 0; i < registers_.size(); ++i) {
    writer_.line(fmt::format("RK_PRIVATE({}, {}, x{});", threads,
                             names_of(registers_[i].type).local, i));
  }
  writer_.open(fmt::format("RK_THREADS({})", threads));
  writer_.line(fmt::format("const {0} p = ({0})RK_BLOCK * {1} + t;",
                           count_type(parallel_), threads));
  writer_.open(fmt::format("if (p < {})", parallel_));
  writer_.decode(writer_.stage().parallel, "p");
  for (size_t i = 0; i < registers_.size(); ++i) start(i);
  for (const int32_t loop : writer_.stage().sequential) {
    writer_.open(
        fmt::format("RK_UNROLL_4 for ({0} i{1} = 0; i{1} < {2}; ++i{1})",
                    writer_.index_type(), loop,
                    kernel_.loops[static_cast<size_t>(loop)].extent));
  }
  inner(false);
  for (size_t i = 0; i < writer_.stage().sequential.size(); ++i)
    writer_.close();
  for (size_t i = 0; i < registers_.size(); ++i) finish(i);
  writer_.close();
  writer_.close();
  writer_.close();
  return launch;
}

int64_t columns_of_tile(int64_t parallel) {
  int64_t columns = kMostColumns;
  while (columns > kFewestColumns && parallel < columns * kEnoughBlocks)
    columns /= 2;
  while (columns / 2 >= parallel) columns /= 2;
  return columns;
}

/// Tile by tile: all threads compute values, a row of the tile each `columns`
/// of them; then a thread for each column and register takes them in order.
void OrderedPrinter::tile_regions(int64_t columns, int64_t tile) {
  const int64_t rows = kTileThreads / columns;
  const char* count = count_type(sequential_ + tile);
  writer_.open(fmt::format("for ({0} tile = 0; tile < {1}; tile += {2})", count,
                           sequential_, tile));
  writer_.line(fmt::format("const {} end = tile + {} < {} ? tile + {} : {};",
                           count, tile, sequential_, tile, sequential_));
  writer_.open(fmt::format("RK_THREADS({})", kTileThreads));
  writer_.line(fmt::format("const {} p = first + t % {};",
                           count_type(parallel_ + columns), columns));
  writer_.open(
      fmt::format("if (p < {}) for ({} s = tile + t / {}; s < end; s += {})",
                  parallel_, count, columns, rows));
  writer_.line(
      fmt::format("const int at = (int)(s - tile) * {0} + t % {0};", columns));
  writer_.decode(writer_.stage().parallel, "p");
  writer_.decode(writer_.stage().sequential, "s");
  inner(true);
  writer_.close();
  writer_.close();
  writer_.line("RK_SYNC();");
  writer_.open(fmt::format("RK_THREADS({})", kTileThreads));
  for (size_t i = 0; i < registers_.size(); ++i) {
    writer_.line(fmt::format(
        "if (t / {0} == {1}) RK_UNROLL_8 for (int s = 0; s < (int)(end - "
        "tile); "
        "++s) {2}",
        columns, static_cast<int64_t>(i) % rows,
        next(i, fmt::format("({})g{}[s * {} + t % {}]",
                            names_of(registers_[i].type).local, i, columns,
                            columns))));
  }
  writer_.close();
  writer_.line("RK_SYNC();");
  writer_.close();
}

PrintedLaunch OrderedPrinter::print_tiled(const std::string& head,
                                          const std::string& name) {
  const int64_t columns = columns_of_tile(parallel_);
  const int64_t rows = kTileThreads / columns;
  int64_t row_bytes = 0;
  for (const Register& held : registers_)
    row_bytes += columns * (primitive_type_bits(held.type) == 64 ? 8 : 4);
  const int64_t tile = std::max(kTileBytes / row_bytes, rows);
  PrintedLaunch launch;
  launch.block_threads = kTileThreads;
  launch.grid_blocks =
      static_cast<uint32_t>((parallel_ + columns - 1) / columns);
  writer_.open(fmt::format("RK_KERNEL({}, {}, {})", name, kTileThreads, head));
  writer_.arguments();
  for (size_t i = 0; i < registers_.size(); ++i) {
    const char* local = names_of(registers_[i].type).local;
    writer_.line(
        fmt::format("RK_SHARED({}, g{}, {});", local, i, tile * columns));
    writer_.line(
        fmt::format("RK_PRIVATE({}, {}, x{});", kTileThreads, local, i));
  }
  writer_.line(fmt::format("const {0} first = ({0})RK_BLOCK * {1};",
                           count_type(parallel_ + columns), columns));
  const auto by_column = [&](bool at_start) {
    writer_.open(fmt::format("RK_THREADS({})", kTileThreads));
    writer_.line(fmt::format("const {} p = first + t % {};",
                             count_type(parallel_ + columns), columns));
    for (size_t i = 0; i < registers_.size(); ++i) {
      writer_.open(fmt::format("if (p < {} && t / {} == {})", parallel_,
                               columns, static_cast<int64_t>(i) % rows));
      writer_.decode(writer_.stage().parallel, "p");
      at_start ? start(i) : finish(i);
      writer_.close();
    }
    writer_.close();
  };
  by_column(true);
  tile_regions(columns, tile);
  by_column(false);
  writer_.close();
  return launch;
}

}  // namespace

PrintedLaunch print_ordered(StageWriter& writer, const std::string& head,
                            const std::string& name) {
  return OrderedPrinter(writer).print_ordered(head, name);
}

PrintedLaunch print_tiled(StageWriter& writer, const std::string& head,
                          const std::string& name) {
  return OrderedPrinter(writer).print_tiled(head, name);
}

}  // namespace reprise
