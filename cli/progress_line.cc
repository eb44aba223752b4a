// Drawn with the cursor left at the start of the line, so that what another
// process says (a trainer's rank) begins there.
#include "cli/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "data/io/printable_text.h"
#include "data/number_text.h"

namespace reprise {
namespace {

constexpr size_t kBar = 24;
constexpr std::chrono::milliseconds kDrawPeriod{100};
// Sooner than this, nobody can tell how long it takes.
constexpr double kLeastShare = 0.01;

bool can_draw() {
  const char* terminal = std::getenv("TERM");
  const char* automatic = std::getenv("CI");
  return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr &&
         *terminal != '\0' && std::string_view(terminal) != "dumb" &&
         (automatic == nullptr || *automatic == '\0');
}

size_t terminal_columns() {
  winsize size{};
  constexpr size_t kUsual = 80;
  const bool known =
      ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

std::string rate_text(const WorkProgress& progress, double seconds) {
  const double rate = progress.count / seconds;
  if (progress.unit == "B") return bytes_text(rate) + "/s";
  const int digits = rate < 10 ? 1 : 0;
  return fmt::format("{:.{}f} {}/s", rate, digits, progress.unit);
}

}  // namespace

std::string progress_text(const WorkProgress& progress,
                          std::chrono::nanoseconds elapsed, size_t columns) {
  const size_t room = columns > 0 ? columns - 1 : 0;
  std::string line = "  " + printable_text(progress.what);
  if (line.size() > room) line.resize(room);
  const auto add = [&](const std::string& part) {
    const bool fits = line.size() + part.size() <= room;
    if (fits) line += part;
    return fits;
  };
  const double share = std::min(progress.share, 1.0);
  if (share >= 0) {
    const auto marks = static_cast<size_t>(share * kBar);
    if (!add(fmt::format(" [{:.<{}}]", std::string(marks, '#'), kBar)))
      return line;
    if (!add(fmt::format(" {:3.0f} %", 100 * share))) return line;
  }
  const double seconds = std::chrono::duration<double>(elapsed).count();
  if (!(seconds > 0)) return line;
  const bool counted = !progress.unit.empty() && progress.count > 0;
  if (counted && !add(", " + rate_text(progress, seconds))) return line;
  if (share >= kLeastShare) {
    constexpr double kNanoseconds = 1e9;
    add(", " + duration_text(kNanoseconds * seconds * (1 - share) / share) +
        " left");
  }
  return line;
}

ProgressLine::ProgressLine() : terminal_(can_draw()) {}

void ProgressLine::erase() {
  if (!shown_) return;
  shown_ = false;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

void ProgressLine::show(const WorkProgress& progress) {
  if (!terminal_) return;
  const Clock::time_point now = Clock::now();
  if (progress.what != what_) {
    what_ = progress.what;
    begin_ = now;
  } else if (now - last_ < kDrawPeriod) {
    return;
  }
  last_ = now;
  shown_ = true;
  std::fputs(("\r" + progress_text(progress, now - begin_, terminal_columns()) +
              "\x1b[K\r")
                 .c_str(),
             stderr);
  std::fflush(stderr);
}

ProgressWatcher ProgressLine::watcher() {
  if (!terminal_) return {};
  return [this](const WorkProgress& progress) { show(progress); };
}

}  // namespace reprise
