// The streams of a Kineto file: host threads by process and thread id, device
// streams by device and stream number, named by rows that may come last.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "data/io/chrome_event.h"
#include "data/trace/trace_spool.h"

namespace reprise {

class KinetoStreams {
 public:
  KinetoStreams(TraceSpool& spool, uint32_t rank);

  /// Stream of the host thread that the event names.
  uint32_t host(const ChromeEvent& event);
  /// Stream of the device that the event names: by its arguments, or else by
  /// process and thread ("stream 7" up to torch 1.9).
  uint32_t device(const ChromeEvent& event);

  /// Takes a "thread_name" row in; names are given by `finish`.
  void name_thread(const ChromeEvent& row);
  void finish();

  /// Process of the first host thread, 0 if there is none.
  int64_t first_process() const { return first_process_; }
  /// Device of the first device stream, -1 if there is none.
  int32_t first_device() const { return first_device_; }

 private:
  struct Recent {
    std::string process, thread;  ///< As in the file.
    uint32_t stream = 0;
    bool set = false;
  };
  using ThreadKey = std::pair<std::string, std::string>;
  using DeviceKey = std::pair<int64_t, int64_t>;

  uint32_t find_host(std::string_view process, std::string_view thread);
  uint32_t find_device(DeviceKey key);

  TraceSpool& spool_;
  uint32_t rank_;
  std::array<Recent, 16> recent_;
  std::map<ThreadKey, uint32_t> hosts_;
  std::map<DeviceKey, uint32_t> devices_;
  DeviceKey last_device_{-2, -2};
  uint32_t last_device_stream_ = 0;
  std::map<ThreadKey, std::string> names_;
  int64_t first_process_ = 0;
  int32_t first_device_ = -1;
};

}  // namespace reprise
