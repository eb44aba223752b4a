#include "tests/testing/mutated_plan.h"

#include <algorithm>
#include <random>

#include "data/hlo/hlo.h"

namespace reprise {
namespace {

class Mutator {
 public:
  Mutator(const InlinedModule& module, Plan plan, uint64_t seed)
      : entry_(module.entry_computation()),
        random_(seed),
        plan_(std::move(plan)) {
    for (uint32_t i = 0; i < entry_.instructions.size(); ++i) {
      const Instruction& instruction = entry_.instructions[i];
      if (is_collective(instruction.opcode))
        collectives_.push_back(instruction.name);
    }
  }

  Plan mutate() {
    for (size_t edits = 1 + below(3); edits > 0; --edits) edit();
    return std::move(plan_);
  }

 private:
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  template <typename T>
  T& pick(std::vector<T>& list) {
    return list[below(list.size())];
  }
  template <typename T>
  T take(std::vector<T>& list) {
    const size_t at = below(list.size());
    T taken = std::move(list[at]);
    list.erase(list.begin() + static_cast<ptrdiff_t>(at));
    return taken;
  }

  void edit() {
    switch (below(4)) {
      case 0:
        return edit_order();
      case 1:
        if (!plan_.buckets.empty()) return edit_bucket(pick(plan_.buckets));
        plan_.buckets.push_back(
            {.unit = "bucket", .collectives = {pick(collectives_)}});
        return;
      default:
        if (!plan_.fusion.empty()) return edit_group(pick(plan_.fusion));
        plan_.fusion.push_back({.unit = "group", .ops = {any_op()}});
    }
  }

  std::string any_op() {
    return entry_.instructions[below(entry_.instructions.size())].name;
  }

  /// An operand or a reader of an op of the group, or any op.
  std::string near(const FusionGroup& group) {
    if (group.ops.empty() || below(4) == 0) return any_op();
    const std::string& name = group.ops[below(group.ops.size())];
    std::vector<std::string> found;
    for (const Instruction& instruction : entry_.instructions) {
      for (const InstructionId operand : instruction.operands) {
        const std::string& read = entry_.at(operand).name;
        if (read == name) found.push_back(instruction.name);
        if (instruction.name == name) found.push_back(read);
      }
    }
    return found.empty() ? name : pick(found);
  }

  void edit_group(FusionGroup& group) {
    switch (below(7)) {
      case 0:
        if (!group.ops.empty()) take(group.ops);
        return;
      case 1:
      case 2:
        group.ops.push_back(near(group));
        return;
      case 3: {
        FusionGroup& other = pick(plan_.fusion);
        group.ops.insert(group.ops.end(), other.ops.begin(), other.ops.end());
        return;
      }
      case 4: {
        FusionGroup half{.unit = "half", .ops = {}};
        while (group.ops.size() > 1 && below(3) != 0)
          half.ops.push_back(take(group.ops));
        plan_.fusion.push_back(std::move(half));
        return;
      }
      case 5:
        take(plan_.fusion);
        return;
      default:
        group.unit = below(2) == 0 ? any_op() : "";
    }
  }

  void edit_bucket(Bucket& bucket) {
    switch (below(6)) {
      case 0:
        if (!bucket.collectives.empty()) take(bucket.collectives);
        return;
      case 1:
        bucket.collectives.push_back(pick(collectives_));
        return;
      case 2: {
        Bucket other = take(plan_.buckets);
        if (plan_.buckets.empty()) return;
        auto& into = pick(plan_.buckets).collectives;
        into.insert(into.end(), other.collectives.begin(),
                    other.collectives.end());
        return;
      }
      case 3:
        std::shuffle(bucket.collectives.begin(), bucket.collectives.end(),
                     random_);
        return;
      case 4:
        bucket.chunks = static_cast<int64_t>(below(6)) - 1;
        return;
      default:
        bucket.collectives.push_back(any_op() + ":0");
    }
  }

  void edit_order() {
    if (plan_.order.size() < 2) return;
    const size_t at = below(plan_.order.size() - 1);
    switch (below(5)) {
      case 0:
        std::swap(plan_.order[at], pick(plan_.order));
        return;
      case 1:
      case 2:
        std::swap(plan_.order[at], plan_.order[at + 1]);
        return;
      case 3:
        take(plan_.order);
        return;
      default:
        plan_.order.clear();
    }
  }

  const Computation& entry_;
  std::mt19937_64 random_;
  Plan plan_;
  std::vector<std::string> collectives_;
};

}  // namespace

Plan mutated_plan(const InlinedModule& module, Plan plan, uint64_t seed) {
  return Mutator(module, std::move(plan), seed).mutate();
}

}  // namespace reprise
