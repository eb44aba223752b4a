// The file holds one JSON array, replaced as a whole: what, share, count, unit.
#include "cli/trainer_progress.h"

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/progress_line.h"
#include "data/file.h"
#include "data/io/json_tree.h"

namespace reprise {
namespace {

constexpr std::chrono::milliseconds kPeriod{100};

/// Of a file that is not there yet, or is none of ours: nothing.
void show_file(const std::string& path, ProgressLine& line) {
  const Result<std::string> text = read_file(path);
  if (!text) return;
  const auto json = parse_json_or_discard(*text);
  if (!json.is_array() || json.size() != 4 || !json[0].is_string() ||
      !json[1].is_number() || !json[2].is_number() || !json[3].is_string())
    return;
  const auto unit = json[3].get<std::string>();
  line.show({.what = json[0].get<std::string>(),
             .share = json[1].get<double>(),
             .count = json[2].get<double>(),
             .unit = unit});
}

}  // namespace

ProgressWatcher write_progress(std::string path) {
  using Clock = std::chrono::steady_clock;
  return [path = std::move(path), last = std::optional<Clock::time_point>(),
          what = std::string()](const WorkProgress& progress) mutable {
    const Clock::time_point now = Clock::now();
    if (last && progress.what == what && now - *last < kPeriod) return;
    last = now;
    what = progress.what;
    const nlohmann::json json = {progress.what, progress.share, progress.count,
                                 progress.unit};
    static_cast<void>(write_file_atomically(path, json_text(json)));
  };
}

ShownTrainer::ShownTrainer(std::string path) : path_(std::move(path)) {
  // Signals are the business of the thread that waits for the trainer.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ShownTrainer::~ShownTrainer() {
  ended_ = true;
  thread_.join();
}

void ShownTrainer::watch() const {
  ProgressLine line;
  while (!ended_) {
    show_file(path_, line);
    std::this_thread::sleep_for(kPeriod);
  }
}

}  // namespace reprise
