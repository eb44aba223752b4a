#include "data/hlo/opcode.h"

#include <array>
#include <string_view>
#include <unordered_map>

namespace reprise {
namespace {

constexpr std::array kNames = {
#define REPRISE_HLO_OPCODE(id, text) std::string_view(text),
    REPRISE_HLO_OPCODES(REPRISE_HLO_OPCODE)
#undef REPRISE_HLO_OPCODE
};

}  // namespace

std::string_view opcode_name(Opcode opcode) {
  return kNames[static_cast<size_t>(opcode)];
}

std::optional<Opcode> opcode_from_name(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, Opcode> map;
    for (size_t i = 0; i < kNames.size(); ++i)
      map.emplace(kNames[i], static_cast<Opcode>(i));
    return map;
  }();
  const auto found = by_name.find(name);
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

int elementwise_operands(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAbs:
    case Opcode::kCbrt:
    case Opcode::kCeil:
    case Opcode::kClz:
    case Opcode::kConvert:
    case Opcode::kCosine:
    case Opcode::kErf:
    case Opcode::kExp:
    case Opcode::kExpm1:
    case Opcode::kFloor:
    case Opcode::kImag:
    case Opcode::kIsFinite:
    case Opcode::kLog:
    case Opcode::kLog1p:
    case Opcode::kLogistic:
    case Opcode::kNegate:
    case Opcode::kNot:
    case Opcode::kPopulationCount:
    case Opcode::kReal:
    case Opcode::kReducePrecision:
    case Opcode::kRoundNearestAfz:
    case Opcode::kRoundNearestEven:
    case Opcode::kRsqrt:
    case Opcode::kSign:
    case Opcode::kSine:
    case Opcode::kSqrt:
    case Opcode::kTan:
    case Opcode::kTanh:
      return 1;
    case Opcode::kAdd:
    case Opcode::kAnd:
    case Opcode::kAtan2:
    case Opcode::kCompare:
    case Opcode::kComplex:
    case Opcode::kDivide:
    case Opcode::kMaximum:
    case Opcode::kMinimum:
    case Opcode::kMultiply:
    case Opcode::kOr:
    case Opcode::kPower:
    case Opcode::kRemainder:
    case Opcode::kShiftLeft:
    case Opcode::kShiftRightArithmetic:
    case Opcode::kShiftRightLogical:
    case Opcode::kStochasticConvert:
    case Opcode::kSubtract:
    case Opcode::kXor:
      return 2;
    case Opcode::kClamp:
    case Opcode::kSelect:
      return 3;
    default:
      return 0;
  }
}

}  // namespace reprise
