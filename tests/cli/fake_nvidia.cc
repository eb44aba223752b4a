// NVIDIA's libraries as the doctor asks them: one library under the names of
// all, whose answers are numbers in the environment.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "profiler/cupti/cupti_types.h"

namespace {

int number(const char* variable, int fallback) {
  const char* text = std::getenv(variable);
  return text == nullptr ? fallback : std::atoi(text);
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return number("FAKE_CU_INIT", 0); }
int cuDriverGetVersion(int* version) {
  *version = number("FAKE_CU_VERSION", 13000);
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = number("FAKE_CU_DEVICES", 2);
  return 0;
}
int nvrtcVersion(int* major, int* minor) {
  *major = number("FAKE_NVRTC_MAJOR", 13);
  *minor = 0;
  return 0;
}
size_t cublasLtGetVersion() { return 130100; }
size_t cudnnGetVersion() { return 91900; }
size_t cudnnGetCudartVersion() { return 13000; }
int cuptiGetVersion(uint32_t* version) {
  if (std::getenv("FAKE_CUPTI_CRASHES") != nullptr) std::abort();
  *version = static_cast<uint32_t>(number("FAKE_CUPTI_VERSION", 130001));
  return 0;
}
/// As CUPTI refuses a second tool: with the name of the first.
int cuptiSubscribe_v2(void** subscriber, void*, void*,
                      reprise::cupti::SubscriberParams* params) {
  *subscriber = params;
  const int status = number("FAKE_CUPTI_SUBSCRIBE", 0);
  if (status == reprise::cupti::kMultipleSubscribers) {
    std::strncpy(params->old_name, "nsys", params->old_name_size - 1);
  }
  return status;
}
int cuptiSubscribe(void** subscriber, void*, void*) {
  *subscriber = subscriber;
  return number("FAKE_CUPTI_SUBSCRIBE", 0);
}
int cuptiUnsubscribe(void*) { return 0; }
int cuptiActivityEnable(uint32_t) { return number("FAKE_CUPTI_ENABLE", 0); }
int cuptiActivityDisable(uint32_t) { return 0; }
int cuptiGetResultString(int status, const char** text) {
  *text = status == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR";
  return 0;
}
int ncclGetVersion(int* version) {
  *version = number("FAKE_NCCL_VERSION", 22809);
  return 0;
}
}
