// A host program with NVTX ranges: by nvtx3's own headers where they are
// installed (REPRISE_HAS_NVTX3), else through an instance of our own.
// nvtx_program SCENARIO.
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#ifdef REPRISE_HAS_NVTX3
#include <nvtx3/nvToolsExt.h>
#else
#include "tests/profiler/inject/fake_nvtx.h"
#endif

namespace {

#ifndef REPRISE_HAS_NVTX3
// The part of nvtx3 that is used below, with its names.
using nvtxDomainHandle_t = const void*;
using nvtxStringHandle_t = const void*;
using nvtxRangeId_t = uint64_t;
struct nvtxEventAttributes_t {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved0;
  uint64_t payload;
  int32_t messageType;
  union {
    const char* ascii;
    const wchar_t* unicode;
    nvtxStringHandle_t registered;
  } message;
};
constexpr uint16_t NVTX_VERSION = 3;
constexpr int32_t NVTX_MESSAGE_TYPE_ASCII = 1;
constexpr int32_t NVTX_MESSAGE_TYPE_UNICODE = 2;
constexpr int32_t NVTX_MESSAGE_TYPE_REGISTERED = 3;

reprise::fake::NvtxInstance& instance() {
  static reprise::fake::NvtxInstance nvtx;
  static const bool is_initialized = [] {
    void* library = ::dlopen(std::getenv("NVTX_INJECTION64_PATH"), RTLD_LAZY);
    auto* injection = reinterpret_cast<int (*)(const void* (*)(uint32_t))>(
        ::dlsym(library, "InitializeInjectionNvtx2"));
    return nvtx.initialize(injection);
  }();
  if (!is_initialized) std::exit(9);
  return nvtx;
}
int nvtxRangePushA(const char* name) {
  return instance().core<int(const char*)>(9)(name);
}
int nvtxRangePushW(const wchar_t* name) {
  return instance().core<int(const wchar_t*)>(10)(name);
}
int nvtxRangePop() { return instance().core<int()>(11)(); }
void nvtxMarkA(const char* name) {
  instance().core<void(const char*)>(2)(name);
}
nvtxRangeId_t nvtxRangeStartA(const char* name) {
  return instance().core<nvtxRangeId_t(const char*)>(5)(name);
}
void nvtxRangeEnd(nvtxRangeId_t id) {
  instance().core<void(nvtxRangeId_t)>(7)(id);
}
void nvtxNameOsThreadA(uint32_t thread, const char* name) {
  instance().core<void(uint32_t, const char*)>(14)(thread, name);
}
nvtxDomainHandle_t nvtxDomainCreateA(const char* name) {
  return instance().core2<nvtxDomainHandle_t(const char*)>(12)(name);
}
nvtxStringHandle_t nvtxDomainRegisterStringA(nvtxDomainHandle_t domain,
                                             const char* text) {
  return instance().core2<nvtxStringHandle_t(nvtxDomainHandle_t, const char*)>(
      10)(domain, text);
}
int nvtxDomainRangePushEx(nvtxDomainHandle_t domain,
                          const nvtxEventAttributes_t* event) {
  return instance()
      .core2<int(nvtxDomainHandle_t, const nvtxEventAttributes_t*)>(4)(domain,
                                                                       event);
}
int nvtxDomainRangePop(nvtxDomainHandle_t domain) {
  return instance().core2<int(nvtxDomainHandle_t)>(5)(domain);
}
#endif

nvtxEventAttributes_t attributes() {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = sizeof event;
  return event;
}

void play_ranges() {
  nvtxNameOsThreadA(static_cast<uint32_t>(::gettid()), "the main one");
  nvtxRangePushA("outer");
  nvtxRangePushW(L"inn\u00e9r \u2192");
  nvtxMarkA("mark");
  const nvtxRangeId_t id = nvtxRangeStartA("across threads");
  std::thread([id] {
    nvtxRangePushA("of a thread");
    nvtxRangePop();
    nvtxRangeEnd(id);
  }).join();
  nvtxRangePop();
  // Ranges of another domain need not nest with those of the default one.
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("my \"domain\"");
  nvtxEventAttributes_t event = attributes();
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainRangePushEx(domain, &event);
  nvtxRangePop();
  nvtxDomainRangePop(domain);
  nvtxDomainRangePop(domain);  // Once too often: nothing.
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = "ascii";
  nvtxDomainRangePushEx(domain, &event);
  nvtxDomainRangePop(domain);
}

/// Deeper than there is room for: the deepest are counted.
void play_deep() {
  for (int i = 0; i < 70; ++i) nvtxRangePushA("deep");
  for (int i = 0; i < 70; ++i) nvtxRangePop();
}

void play_steps() {
  for (int step = 0; step < 6; ++step) {
    const std::string name = "ProfilerStep#" + std::to_string(step);
    nvtxRangePushA(name.c_str());
    nvtxRangePushA("work");
    nvtxRangePop();
    nvtxRangePop();
  }
}

void play_named() {
  for (int epoch = 0; epoch < 4; ++epoch) {
    nvtxRangePushA("epoch");
    nvtxMarkA(std::to_string(epoch).c_str());
    nvtxRangePop();
  }
}

/// A worker as Python forks them: it ends by _exit.
void play_fork() {
  nvtxRangePushA("of the parent");
  const pid_t child = ::fork();
  if (child == 0) {
    nvtxRangePushA("of the child");
    nvtxRangePop();
    nvtxRangePop();  // The parent's range is not the child's.
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  nvtxRangePop();
  if (status != 0) std::exit(9);
}

/// Killed once the writer has appended what was recorded: waits for no time,
/// but for the file to grow.
void play_killed() {
  const auto shard_bytes = [] {
    uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(
             std::getenv("REPRISE_PROFILE_DIRECTORY"))) {
      bytes += entry.file_size();
    }
    return bytes;
  };
  const uintmax_t before = shard_bytes();
  for (int i = 0; i < 10; ++i) {
    nvtxRangePushA("short");
    nvtxRangePop();
  }
  // 80 bytes a record.
  while (shard_bytes() < before + 10 * 80) ::usleep(1'000);
  ::kill(::getpid(), SIGKILL);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string scenario = count > 1 ? arguments[1] : "";
  if (scenario == "ranges") play_ranges();
  if (scenario == "deep") play_deep();
  if (scenario == "steps") play_steps();
  if (scenario == "named") play_named();
  if (scenario == "fork") play_fork();
  if (scenario == "killed") play_killed();
  return 7;
}
