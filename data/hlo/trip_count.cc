// Trip counts of while loops, by the two signs that XLA's own passes leave: the
// backend config that its trip count annotator writes, or a condition of the
// form `counter < constant` over a counter that starts at 0.
#include <charconv>

#include "data/hlo/cost_analysis.h"

namespace reprise {
namespace {

/// The number of `"known_trip_count":{"n":"126"}`, quotes escaped or not.
std::optional<int64_t> known_trip_count(const Instruction& loop) {
  const Attribute* config = loop.find_attribute("backend_config");
  if (config == nullptr) return std::nullopt;
  const auto* raw = std::get_if<RawText>(&config->value);
  if (raw == nullptr) return std::nullopt;
  const size_t at = raw->text.find("known_trip_count");
  if (at == std::string::npos) return std::nullopt;
  const size_t digits = raw->text.find_first_of("0123456789", at);
  if (digits == std::string::npos) return std::nullopt;
  int64_t count = 0;
  const char* begin = raw->text.data() + digits;
  const auto parsed =
      std::from_chars(begin, raw->text.data() + raw->text.size(), count);
  return parsed.ec == std::errc() ? std::optional(count) : std::nullopt;
}

std::optional<LoopCounter> counter_of(const Module& module,
                                      const Computation& computation,
                                      const Instruction& loop) {
  const auto condition_id = called_computation(loop, "condition");
  if (!condition_id || loop.operands.size() != 1) return std::nullopt;
  const Computation& condition = module.at(*condition_id);
  const Instruction& root = condition.at(condition.root);
  if (root.opcode != Opcode::kCompare || compare_direction(root) != "LT")
    return std::nullopt;
  const auto index = picked_element(condition.at(root.operands[0]));
  const auto limit = integer_constant(condition.at(root.operands[1]));
  const Instruction& state = computation.at(loop.operands[0]);
  if (!index || !limit || state.opcode != Opcode::kTuple) return std::nullopt;
  if (*index >= state.operands.size()) return std::nullopt;
  const auto start = integer_constant(computation.at(state.operands[*index]));
  if (!start || *start != 0 || *limit < 0) return std::nullopt;
  return LoopCounter{.index = *index, .limit = *limit};
}

/// What a body adds to an element of its state, if that is a constant.
std::optional<int64_t> added(const Computation& body, size_t index) {
  const Instruction& root = body.at(body.root);
  if (root.opcode != Opcode::kTuple || index >= root.operands.size())
    return std::nullopt;
  const Instruction& next = body.at(root.operands[index]);
  if (next.opcode != Opcode::kAdd) return std::nullopt;
  for (const size_t old : {size_t{0}, size_t{1}}) {
    const Instruction& element = body.at(next.operands[old]);
    if (picked_element(element) == index &&
        body.at(element.operands[0]).opcode == Opcode::kParameter)
      return integer_constant(body.at(next.operands[1 - old]));
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> trip_count(const Module& module,
                                  const Computation& computation,
                                  const Instruction& loop) {
  if (const auto known = known_trip_count(loop)) return known;
  if (const auto proven = proven_trip_count(module, computation, loop))
    return proven;
  const auto counter = counter_of(module, computation, loop);
  return counter ? std::optional(counter->limit) : std::nullopt;
}

std::optional<LoopCounter> proven_counter(const Module& module,
                                          const Computation& computation,
                                          const Instruction& loop) {
  auto counter = counter_of(module, computation, loop);
  const auto body = called_computation(loop, "body");
  if (!counter || !body) return std::nullopt;
  const auto step = added(module.at(*body), counter->index);
  // The limit itself is reached, so no type wraps around.
  if (!step || *step < 1 || counter->limit % *step != 0) return std::nullopt;
  counter->step = *step;
  return counter;
}

std::optional<int64_t> proven_trip_count(const Module& module,
                                         const Computation& computation,
                                         const Instruction& loop) {
  const auto counter = proven_counter(module, computation, loop);
  return counter ? std::optional(counter->trips()) : std::nullopt;
}

}  // namespace reprise
