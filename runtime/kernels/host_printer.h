// What prints a kernel for the CPU: statements in print_kernel.cc, loops in
// print_kernel_loops.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/kernel/kernel_parts.h"
#include "runtime/kernels/blended_selects.h"
#include "runtime/kernels/moved_values.h"
#include "runtime/kernels/print_expression.h"

namespace reprise {

struct KeptRows;
struct LoopTile;

class HostPrinter {
 public:
  HostPrinter(const Kernel& kernel, std::string_view name)
      : kernel_(kernel),
        name_(name),
        text_of_(kernel),
        index_type_(text_of_.index_type()),
        moved_(moved_values(kernel)),
        blended_(blended_selects(kernel)) {}
  std::string print();

 private:
  std::string value(const KernelValue& value, int32_t id) const;
  /// Its bits are as in memory.
  bool is_moved(int32_t value) const {
    return wide_loop_ < 0 && !in_columns_ && moved_[static_cast<size_t>(value)];
  }
  void line(const std::string& text);
  void block(const std::vector<KernelStatement>& statements);
  void statement(const KernelStatement& statement);
  void store(const KernelStatement& store);
  void loop(const KernelStatement& loop);
  void loop_itself(const KernelStatement& loop);
  std::string is_in_place(const KeptRows& kept) const;
  bool changed_rows(const KernelStatement& loop);
  void body(const KernelStatement& loop);
  void part(const KernelPart& part, bool only);
  std::string first_of(int64_t from) const;
  std::string last_of(int64_t to, int64_t extent) const;
  template <typename Print>
  void each_row(const KernelStatement& loop, const Print& print);
  void row_blocks(const KernelStatement& loop, bool split);
  void block_loop(int32_t loop, const std::string& from, const std::string& to,
                  bool is_whole);
  void tile(const LoopTile& tile, bool split);
  void lane_loop(const KernelStatement& loop);
  void wide_copies(const KernelStatement& loop, bool before);
  void total(const KernelValue& value, int32_t id);

  const Kernel& kernel_;
  std::string_view name_;
  ExpressionPrinter text_of_;
  const char* index_type_;
  const std::vector<bool> moved_;    ///< [value]
  const std::vector<bool> blended_;  ///< [value]
  std::string text_;
  size_t depth_ = 1;
  /// Lane loop whose narrow accesses go through wide copies.
  int32_t wide_loop_ = -1;
  bool in_columns_ = false;  ///< Of row blocks.
  bool in_copy_ = false;     ///< In a loop that is left out in place.
  int32_t asked_ = -1;       ///< The guard that a whole loop stands behind.
  bool split_ = false;       ///< The next loop is the one a caller may split.
  std::string begin_, end_;  ///< The caller's part of it.
};

}  // namespace reprise
