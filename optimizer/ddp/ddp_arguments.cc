#include "optimizer/ddp/ddp_arguments.h"

#include <map>

#include "optimizer/ddp/ddp_timeline.h"

namespace reprise {
namespace {

/// Checks buckets against the order in which PyTorch fills them.
class ReadyOrder {
 public:
  ReadyOrder(const TracePlan& trace, const std::string& path) : path_(path) {
    for (const PlannedGradient& each : trace.gradients) {
      by_name_[each.name] = &each;
      of_type_[each.type].gradients.push_back(&each);
    }
  }

  /// Bytes of the next bucket. Errors: kInvalid.
  Result<int64_t> take(const Bucket& bucket) {
    int64_t bytes = 0;
    Queue* queue = nullptr;
    for (const std::string& name : bucket.collectives) {
      const auto found = by_name_.find(name);
      if (found == by_name_.end()) {
        return fail(ErrorKind::kInvalid,
                    "{}: bucket {} names no gradient: '{}'", path_, bucket.unit,
                    name);
      }
      if (queue == nullptr) queue = &of_type_.at(found->second->type);
      if (queue->next >= queue->gradients.size() ||
          queue->gradients[queue->next]->name != name) {
        return fail(ErrorKind::kInvalid,
                    "{}: bucket {} is not made of the next gradients of one "
                    "type at '{}'; PyTorch fills buckets in ready order",
                    path_, bucket.unit, name);
      }
      ++queue->next;
      ++placed_;
      bytes += found->second->bytes;
    }
    return bytes;
  }

  size_t placed() const { return placed_; }

 private:
  struct Queue {
    std::vector<const PlannedGradient*> gradients;
    size_t next = 0;
  };
  const std::string& path_;
  std::map<std::string, const PlannedGradient*> by_name_;
  std::map<std::string, Queue> of_type_;
  size_t placed_ = 0;
};

}  // namespace

Result<DdpArguments> ddp_arguments(const Plan& plan, const std::string& path) {
  const TracePlan& trace = *plan.trace;
  std::vector<DdpGradient> gradients;
  int64_t total = 0;
  for (const PlannedGradient& each : trace.gradients) {
    if (__builtin_add_overflow(total, each.bytes, &total)) {
      return fail(ErrorKind::kInvalid, "{}: gradients of more than 2^63 bytes",
                  path);
    }
    gradients.push_back({each.name, each.type, each.shape, each.bytes});
  }
  DdpArguments arguments;
  ReadyOrder order(trace, path);
  for (const Bucket& bucket : plan.buckets) {
    const Result<int64_t> bytes = order.take(bucket);
    if (!bytes) return pass(bytes.error());
    arguments.bucket_bytes.push_back(*bytes);
  }
  if (order.placed() != gradients.size() || plan.buckets.empty()) {
    return fail(ErrorKind::kInvalid, "{}: {} of {} gradients are in a bucket",
                path, order.placed(), gradients.size());
  }
  arguments.single_cap_bucket_bytes =
      caps_of(gradients, ddp_buckets(gradients, {trace.single_cap_bytes}));
  return arguments;
}

}  // namespace reprise
