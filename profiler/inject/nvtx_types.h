// NVTX's injection interface as far as it is used, declared anew. Values and
// layouts are those of NVTX 3's nvToolsExt.h and nvtxDetail/nvtxTypes.h; a test
// runs real NVTX 3 headers against it where they are installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::nvtx {

inline constexpr uint32_t kCallbacksTable = 1;  ///< NVTX_ETID_CALLBACKS.
inline constexpr uint32_t kCoreModule = 1;
inline constexpr uint32_t kCore2Module = 5;

/// NvtxCallbackIdCore.
enum CoreCallback : uint32_t {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
  kNameOsThreadA = 14,
  kNameOsThreadW = 15,
};

/// NvtxCallbackIdCore2.
enum Core2Callback : uint32_t {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
};

enum MessageType : int32_t {
  kAsciiMessage = 1,
  kUnicodeMessage = 2,
  kRegisteredMessage = 3,
};

/// nvtxEventAttributes_t, version 2 and 3.
struct EventAttributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void* message;
};
static_assert(sizeof(EventAttributes) == 48 &&
              offsetof(EventAttributes, message) == 40);

using AnyFunction = void (*)();

/// NvtxExportTableCallbacks.
struct CallbacksTable {
  size_t struct_size;
  int (*get_module_table)(uint32_t module, AnyFunction*** table,
                          unsigned* size);
};

extern "C" {
using GetExportTable = const void* (*)(uint32_t id);
}

}  // namespace reprise::nvtx
