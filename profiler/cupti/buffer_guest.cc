#include "profiler/cupti/buffer_guest.h"

#include <dlfcn.h>

#include <string_view>

#include "profiler/process_recorder.h"

namespace reprise::cupti {

void BufferGuest::begin(RequestBuffer on_request, CompleteBuffer on_complete) {
  const std::lock_guard lock(mutex_);
  request_.store(on_request);
  complete_.store(on_complete);
  if (is_active_.exchange(true)) return;
  since_ns_ = ProcessRecorder::now_ns();
  ++periods_;
}

void BufferGuest::enable(uint32_t kind) {
  const std::lock_guard lock(mutex_);
  kinds_.insert(kind);
}

bool BufferGuest::disable(uint32_t kind) {
  const std::lock_guard lock(mutex_);
  if (kinds_.erase(kind) == 0 || !kinds_.empty()) return false;
  if (!is_active_.exchange(false)) return false;
  total_ns_ += ProcessRecorder::now_ns() - since_ns_;
  return true;
}

uint8_t* BufferGuest::request(size_t* size, size_t* most_records) {
  const RequestBuffer ask = request_.load();
  if (!is_active_.load() || ask == nullptr) return nullptr;
  uint8_t* buffer = nullptr;
  ask(&buffer, size, most_records);
  if (buffer != nullptr) with_cupti_.fetch_add(1);
  return buffer;
}

void BufferGuest::complete(void* context, uint32_t stream, uint8_t* buffer,
                           size_t size, size_t valid_size) {
  with_cupti_.fetch_sub(1);
  const CompleteBuffer tell = complete_.load();
  if (tell != nullptr) tell(context, stream, buffer, size, valid_size);
}

std::string BufferGuest::describe() const {
  const std::lock_guard lock(mutex_);
  Dl_info info{};
  const auto* code = reinterpret_cast<const void*>(request_.load());
  const bool is_known = ::dladdr(code, &info) != 0 && info.dli_fname != nullptr;
  std::string_view name = is_known ? info.dli_fname : "another tool";
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0.
  int64_t total_ns = total_ns_;
  if (is_active_.load()) total_ns += ProcessRecorder::now_ns() - since_ns_;
  return std::string(name) + " recorded device work itself " +
         std::to_string(periods_) + (periods_ == 1 ? " time, " : " times, ") +
         std::to_string(total_ns / 1'000'000) +
         " ms in all: that work is in its trace and in this one";
}

}  // namespace reprise::cupti
