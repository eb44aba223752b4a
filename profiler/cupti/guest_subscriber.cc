#include "profiler/cupti/guest_subscriber.h"

namespace reprise::cupti {

Result GuestSubscriber::begin(void** handle, Callback function, void* user) {
  if (handle == nullptr || function == nullptr) return kInvalidParameter;
  if (function_.load() != nullptr) return kMultipleSubscribers;
  user_.store(user);
  function_.store(function);
  *handle = &function_;
  return kSuccess;
}

void GuestSubscriber::end() {
  function_.store(nullptr);
  for (uint32_t domain = 0; domain < kDomains; ++domain)
    want_all(false, domain);
}

Result GuestSubscriber::want(bool is_wanted, uint32_t domain, uint32_t id) {
  if (domain >= kDomains || id >= kIds) return kInvalidParameter;
  std::atomic<uint64_t>& word = wanted_[domain][id / 64];
  const uint64_t bit = uint64_t{1} << (id % 64);
  if (is_wanted) {
    word.fetch_or(bit);
  } else {
    word.fetch_and(~bit);
  }
  return kSuccess;
}

Result GuestSubscriber::want_all(bool is_wanted, uint32_t domain) {
  if (domain >= kDomains) return kInvalidParameter;
  for (std::atomic<uint64_t>& word : wanted_[domain])
    word.store(is_wanted ? ~uint64_t{0} : 0);
  return kSuccess;
}

void GuestSubscriber::call(uint32_t domain, uint32_t id,
                           const void* data) const {
  const Callback function = function_.load();
  if (function == nullptr || domain >= kDomains || id >= kIds) return;
  const uint64_t word = wanted_[domain][id / 64].load();
  if ((word >> (id % 64) & 1) != 0) function(user_.load(), domain, id, data);
}

}  // namespace reprise::cupti
