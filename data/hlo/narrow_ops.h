// Floats of 8 bits and fewer, and elements of less than a byte, as ops on wider
// types.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/hlo/loop_steps.h"
#include "data/narrow_type.h"

namespace reprise {

/// Ops whose results have the shape of what they are made of.
class NarrowOps : public LoopSteps {
 public:
  using LoopSteps::LoopSteps;

  /// An f32 rounded to the format, as narrow_float_bits() does.
  InstructionId rounded(InstructionId x, const NarrowFloat& format);
  /// The value in bf16 of bytes that hold the format's bits.
  InstructionId value_of(InstructionId bytes, const NarrowFloat& format);
  /// The reverse, of values that the format has.
  InstructionId bits_of(InstructionId value, const NarrowFloat& format);

  /// Bytes whose parts of `bits` bits, the last ones first, are the last
  /// dimension's elements, of which those bits count.
  InstructionId packed(InstructionId parts, int bits);
  /// The reverse, with other bits left beside those that count.
  InstructionId unpacked(InstructionId bytes, int bits, int64_t count);

  /// Of the shape and type of its first operand; of a choice its second.
  InstructionId like(Opcode opcode, std::vector<InstructionId> operands);
  InstructionId converted(InstructionId from, PrimitiveType type);
  InstructionId bitcast(InstructionId from, PrimitiveType type);
  InstructionId number_like(InstructionId other, double value);
  InstructionId with_number(Opcode opcode, InstructionId x, double value);
  InstructionId compared(std::string_view direction, InstructionId x,
                         double value);

 private:
  InstructionId chosen(InstructionId condition, double value, InstructionId x);
  InstructionId without_sign(InstructionId x, const NarrowFloat& format);
  InstructionId limited(InstructionId near, const NarrowFloat& format);
  InstructionId size_of(InstructionId bits, const NarrowFloat& format);
};

}  // namespace reprise
