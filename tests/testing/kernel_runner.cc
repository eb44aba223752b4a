#include "tests/testing/kernel_runner.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "data/hlo/hlo.h"
#include "data/hlo/opcode.h"
#include "data/kernel/group.h"
#include "data/kernel/kernel_parts.h"
#include "data/kernel/lower_kernel.h"
#include "runtime/kernels/interpreter.h"

namespace reprise {
namespace {

template <typename T>
T read(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

double element(PrimitiveType type, const char* bytes) {
  switch (type) {
    case PrimitiveType::kPred:
      return *bytes;
    case PrimitiveType::kS8:
      return read<int8_t>(bytes);
    case PrimitiveType::kS16:
      return read<int16_t>(bytes);
    case PrimitiveType::kS32:
      return read<int32_t>(bytes);
    case PrimitiveType::kS64:
      return static_cast<double>(read<int64_t>(bytes));
    case PrimitiveType::kU8:
      return read<uint8_t>(bytes);
    case PrimitiveType::kU16:
      return read<uint16_t>(bytes);
    case PrimitiveType::kU32:
      return read<uint32_t>(bytes);
    case PrimitiveType::kU64:
      return static_cast<double>(read<uint64_t>(bytes));
    case PrimitiveType::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(read<uint16_t>(bytes))
                                  << 16);
    case PrimitiveType::kF16: {
      const int bits = read<uint16_t>(bytes);
      const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
      const double size =
          exponent == 31  ? (mantissa == 0 ? HUGE_VAL : std::nan(""))
          : exponent == 0 ? std::ldexp(mantissa, -24)
                          : std::ldexp(mantissa + 1024, exponent - 25);
      return bits >> 15 != 0 ? -size : size;
    }
    case PrimitiveType::kF64:
      return read<double>(bytes);
    default:
      return read<float>(bytes);
  }
}

std::vector<char> store_bits(PrimitiveType type,
                             const std::vector<uint64_t>& bits) {
  const size_t size = static_cast<size_t>(primitive_type_bits(type) / 8);
  std::vector<char> bytes(bits.size() * size);
  for (size_t i = 0; i < bits.size(); ++i)
    std::memcpy(&bytes[i * size], &bits[i], size);
  return bytes;
}

}  // namespace

Memory random_inputs(const Module& module, uint64_t seed) {
  Memory memory;
  const Computation& computation = module.entry_computation();
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  for (uint32_t i = 0; i < computation.instructions.size(); ++i) {
    const Instruction& instruction = computation.instructions[i];
    if (!instruction.shape.is_array()) continue;
    const PrimitiveType type = instruction.shape.type;
    std::vector<uint64_t> bits;
    if (instruction.opcode == Opcode::kConstant) {
      const auto values = literal_values(instruction);
      for (const double value : *values) {
        bits.push_back(literal_bits(type, fmt::format("{}", value)));
      }
    } else if (instruction.opcode == Opcode::kParameter) {
      for (int64_t k = 0; k < element_count(instruction.shape); ++k) {
        const bool whole = primitive_type_name(type)[0] != 'f' &&
                           primitive_type_name(type)[0] != 'b';
        bits.push_back(
            type == PrimitiveType::kPred ? generator() & 1
            : whole
                ? integer_bits(type, static_cast<int64_t>(generator() % 9) - 2)
                : literal_bits(type, fmt::format("{}", normal(generator))));
      }
    } else {
      continue;
    }
    memory[i] = store_bits(type, bits);
  }
  return memory;
}

void run_kernel(const Kernel& kernel, KernelFunction function, Memory& memory) {
  std::vector<void*> arguments;
  for (const KernelArgument& argument : kernel.arguments) {
    std::vector<char>& bytes = memory[index_of(argument.instruction)];
    const size_t size = static_cast<size_t>(
        argument.elements * primitive_type_bits(argument.type) / 8);
    if (argument.is_output) bytes.assign(size, 0x7f);
    REPRISE_CHECK(bytes.size() == size);
    arguments.push_back(bytes.data());
  }
  if (function != nullptr) {
    function(arguments.data(), 0, kernel_iterations(kernel));
  } else {
    interpret_kernel(kernel, arguments.data(), 0, kernel_iterations(kernel));
  }
}

std::vector<double> elements_of(const Shape& shape,
                                const std::vector<char>& bytes) {
  const size_t size = static_cast<size_t>(primitive_type_bits(shape.type) / 8);
  std::vector<double> elements;
  for (size_t i = 0; i < bytes.size(); i += size) {
    elements.push_back(element(shape.type, &bytes[i]));
  }
  return elements;
}

std::vector<InstructionId> kernel_ops(const Module& module) {
  std::vector<InstructionId> ops;
  const Computation& computation = module.entry_computation();
  for (uint32_t i = 0; i < computation.instructions.size(); ++i) {
    const Opcode opcode = computation.instructions[i].opcode;
    if (!is_view(opcode) && opcode != Opcode::kParameter)
      ops.push_back(InstructionId{i});
  }
  return ops;
}

Memory run_one_by_one(const Module& module, uint64_t seed) {
  Memory memory = random_inputs(module, seed);
  for (const InstructionId op : kernel_ops(module)) {
    const Result<Kernel> kernel = lower_kernel(module, {&op, 1}, {&op, 1});
    REPRISE_CHECK(kernel.has_value());
    run_kernel(*kernel, nullptr, memory);
  }
  return memory;
}

int64_t first_difference(const Shape& shape, const std::vector<char>& a,
                         const std::vector<char>& b) {
  if (a.size() != b.size()) return 0;
  const size_t size = static_cast<size_t>(primitive_type_bits(shape.type) / 8);
  for (size_t i = 0; i < a.size(); i += size) {
    if (std::memcmp(&a[i], &b[i], size) == 0) continue;
    if (std::isnan(element(shape.type, &a[i])) &&
        std::isnan(element(shape.type, &b[i])))
      continue;
    return static_cast<int64_t>(i / size);
  }
  return -1;
}

}  // namespace reprise
