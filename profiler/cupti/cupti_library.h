// CUPTI, found at run time. Two copies of CUPTI in one process work against
// each other, so what the process has already loaded comes first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/cupti/cupti_types.h"

namespace reprise::cupti {

/// The functions used; an optional one is null where the library lacks it.
struct Functions {
  Result (*get_version)(uint32_t* version);
  Result (*get_result_string)(Result result, const char** text);  ///< Optional.
  Result (*subscribe)(void** subscriber, Callback callback, void* user);
  /// Optional.
  Result (*subscribe_v2)(void** subscriber, Callback callback, void* user,
                         SubscriberParams* params);
  Result (*enable_callback)(uint32_t enable, void* subscriber, uint32_t domain,
                            uint32_t id);
  Result (*enable_domain)(uint32_t enable, void* subscriber,
                          uint32_t domain);  ///< Optional.
  Result (*unsubscribe)(void* subscriber);   ///< Optional.
  Result (*finalize)();                      ///< Optional.
  Result (*get_callback_name)(uint32_t domain, uint32_t id, const char** name);
  Result (*activity_enable)(uint32_t kind);
  Result (*activity_disable)(uint32_t kind);
  Result (*enable_runtime_api)(uint32_t id, uint8_t enable);  ///< Optional.
  Result (*enable_driver_api)(uint32_t id, uint8_t enable);   ///< Optional.
  Result (*register_callbacks)(RequestBuffer request, CompleteBuffer complete);
  Result (*register_timestamp)(Timestamp timestamp);  ///< Optional.
  Result (*get_timestamp)(uint64_t* time);
  Result (*next_record)(uint8_t* buffer, size_t valid_size, void** record);
  Result (*dropped_records)(void* context, uint32_t stream, size_t* dropped);
  Result (*flush_all)(uint32_t flag);
  Result (*set_attribute)(uint32_t attribute, size_t* size, void* value);
  Result (*set_thread_id_type)(uint32_t type);
  Result (*enable_latency_timestamps)(uint8_t enable);  ///< Optional.
  Result (*enable_all_sync_records)(uint8_t enable);    ///< Optional.
  Result (*push_external)(uint32_t kind, uint64_t id);
  Result (*pop_external)(uint32_t kind, uint64_t* last_id);
  Result (*get_graph_node_id)(void* node, uint64_t* id);     ///< Optional.
  Result (*get_context_id)(void* context, uint32_t* id);     ///< Optional.
  Result (*get_device_id)(void* context, uint32_t* device);  ///< Optional.
};

struct Library {
  Functions functions{};
  std::string path;  ///< Of the file.
};

/// Paths to try, in order: $REPRISE_CUPTI; beside the CUDA libraries that the
/// process has loaded; in CUDA_HOME and CUDA_PATH; the bare names; the
/// toolkit's usual place.
std::vector<std::string> candidate_paths();

/// The functions of the CUPTI that this process has loaded; null without one.
const Functions* loaded_functions();

/// Opens the CUPTI of this process, or the first candidate that has all that
/// is needed; else `why` says what was looked for.
std::optional<Library> open_library(std::string* why);

}  // namespace reprise::cupti
