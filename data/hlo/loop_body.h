// What the body of a counted loop reads and gives in each of its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/hlo/module.h"

namespace reprise {

/// A place among the steps of a loop, `sign * step + offset`.
struct StepPlace {
  int64_t sign = 1;
  int64_t offset = 0;
  bool operator==(const StepPlace&) const = default;
};

/// A value that is one step's row of an array of the state, which the loop only
/// reads: `reshape(dynamic-slice(array, index, 0, …))`.
struct StackRow {
  size_t element = 0;  ///< Of the state.
  StepPlace place;
  InstructionId index{};
};

/// The body of a loop whose state is a tuple of arrays, counted from 0. In the
/// body as read, what only passes through tuples is read where it comes from,
/// and equal ops are one. Cost: linear.
class LoopBody {
 public:
  /// `starts`: [element] the integer that it begins with, if that is known.
  LoopBody(const Computation& body, size_t counter, int64_t trips,
           std::vector<std::optional<int64_t>> starts);

  const Computation& read() const { return body_; }
  int64_t trips() const { return trips_; }
  const Instruction& at(InstructionId id) const { return body_.at(id); }
  /// Each user once, the root too.
  const std::vector<InstructionId>& users(InstructionId id) const {
    return users_[index_of(id)];
  }
  /// What the next step finds at a place of the state.
  InstructionId next(size_t element) const {
    return body_.at(body_.root).operands[element];
  }
  /// The body gives a tuple of as many arrays as it takes.
  bool is_valid() const { return is_valid_; }

  /// The place in the state that a value is.
  std::optional<size_t> element(InstructionId id) const;
  /// Whether every step finds there what the loop began with.
  bool is_kept(size_t element) const;
  /// The only user of an element of the state, where it is read once.
  std::optional<InstructionId> only_reader(size_t element) const {
    return reads_[element] ? only_user(*reads_[element]) : std::nullopt;
  }
  /// The only user, if it is one and reads the value once.
  std::optional<InstructionId> only_user(InstructionId id) const;
  /// Made of kept elements and constants alone, by few ops that move elements.
  bool is_invariant(InstructionId id) const {
    return moves_[index_of(id)] <= kMostMoves;
  }

  /// The place that a scalar index means, which comes by every place once.
  std::optional<StepPlace> place(InstructionId index) const;
  std::optional<StackRow> row(InstructionId value) const;
  /// The index of `dynamic-update-slice` or `dynamic-slice` where it takes one
  /// whole row: all other indices are 0.
  std::optional<InstructionId> row_index(InstructionId slice) const;
  /// The counter as the body reads it.
  InstructionId counter() const { return *reads_[counter_]; }

 private:
  /// Of what goes back to kept elements and constants, more is not looked at.
  static constexpr int kMostMoves = 16;

  void read_through_tuples(const Computation& body);
  void note_elements();
  int moves_of(const Instruction& op) const;
  std::optional<StepPlace> affine(InstructionId id) const {
    return affine_[index_of(id)];
  }
  std::optional<StepPlace> counted(size_t element) const;
  std::optional<StepPlace> chosen(const Instruction& select) const;
  std::optional<StepPlace> affine(const Instruction& op) const;

  Computation body_;
  std::vector<std::vector<InstructionId>> users_;
  std::vector<std::optional<int64_t>> starts_;       ///< [element]
  std::vector<std::optional<InstructionId>> reads_;  ///< [element]
  std::vector<int> moves_;  ///< [id] Ops on the way to what stays.
  std::vector<std::optional<StepPlace>> affine_;  ///< [id] Of scalars.
  size_t counter_ = 0;
  int64_t trips_ = 0;
  bool is_valid_ = false;
};

}  // namespace reprise
