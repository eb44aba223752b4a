// ProcessGroup through files: round k of an exchange is `path.k.RANK`.
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>

#include "data/file.h"
#include "profiler/recorder.h"
#include "runtime/process/process_group.h"

namespace reprise {
namespace {

constexpr useconds_t kFilePollMicroseconds = 1000;
/// For the others, at the end of a run.
constexpr std::chrono::seconds kLeaveTime{2};

class FileProcessGroup : public ProcessGroup {
 public:
  FileProcessGroup(std::string path, int rank, int size, double timeout_s)
      : path_(std::move(path)), rank_(rank), size_(size), timeout_(timeout_s) {}

  // The files of the last round go when everybody has read them, so that a
  // further run may use the path.
  ~FileProcessGroup() override {
    if (round_ == 0) return;
    const auto left = [&](int rank) {
      return fmt::format("{}.left.{}", path_, rank);
    };
    if (rank_ != 0) {
      static_cast<void>(write_file_atomically(left(rank_), {}));
      return;
    }
    const auto end = std::chrono::steady_clock::now() + kLeaveTime;
    for (int peer = 1; peer < size_; ++peer) {
      while (!std::filesystem::exists(left(peer))) {
        if (std::chrono::steady_clock::now() > end) return;
        ::usleep(kFilePollMicroseconds);
      }
    }
    for (int peer = 0; peer < size_; ++peer) {
      ::unlink(name(round_ - 1, peer).c_str());
      ::unlink(left(peer).c_str());
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return rank_; }
  int local_size() const override { return size_; }

  Result<std::vector<std::string>> all_gather(std::string_view bytes) override {
    const Status written = write_file_atomically(name(round_, rank_), bytes);
    if (!written) return pass(written.error());
    std::vector<std::string> result;
    for (int peer = 0; peer < size_; ++peer) {
      Result<std::string> got = wait_for(name(round_, peer), peer);
      if (!got) return pass(got.error());
      result.push_back(std::move(*got));
    }
    // Everybody has read round k-1 once it has written round k.
    if (round_ > 0) ::unlink(name(round_ - 1, rank_).c_str());
    ++round_;
    return result;
  }

  Result<int64_t> ping(int peer) override {
    const std::string question = fmt::format("{}.ping.{}", path_, rank_);
    const std::string answer = fmt::format("{}.pong.{}", path_, peer);
    Status written = write_file_atomically(question, {});
    if (!written) return pass(written.error());
    Result<std::string> stamp = wait_for(answer, peer);
    if (!stamp) return pass(stamp.error());
    ::unlink(answer.c_str());
    int64_t time_ns = 0;
    const char* const end = stamp->data() + stamp->size();
    const auto [rest, error] = std::from_chars(stamp->data(), end, time_ns);
    if (error != std::errc() || rest != end) {
      return fail(ErrorKind::kInvalid, "{}: expected a time in ns, found '{}'",
                  answer, stamp->substr(0, 40));
    }
    return time_ns;
  }

  Status answer_ping(int peer) override {
    const std::string question = fmt::format("{}.ping.{}", path_, peer);
    const Result<std::string> asked = wait_for(question, peer);
    if (!asked) return pass(asked.error());
    ::unlink(question.c_str());
    return write_file_atomically(fmt::format("{}.pong.{}", path_, rank_),
                                 std::to_string(Recorder::now_ns()));
  }

  std::vector<int> roll_call(double wait_s) override {
    const Status written =
        write_file_atomically(fmt::format("{}.alive.{}", path_, rank_), {});
    ::usleep(static_cast<useconds_t>(wait_s * 1e6));
    std::vector<int> missing;
    for (int peer = 0; written && peer < size_; ++peer) {
      if (!std::filesystem::exists(fmt::format("{}.alive.{}", path_, peer))) {
        missing.push_back(peer);
      }
    }
    return missing;
  }

  void abort(int exit_code) override { ::_exit(exit_code); }

 private:
  std::string name(int64_t round, int rank) const {
    return fmt::format("{}.{}.{}", path_, round, rank);
  }

  Result<std::string> wait_for(const std::string& file, int peer) const {
    const auto start = std::chrono::steady_clock::now();
    while (!std::filesystem::exists(file)) {
      if (std::chrono::steady_clock::now() - start > timeout_) {
        return fail(ErrorKind::kDevice, "rank {} did not come: no file {}",
                    peer, file);
      }
      ::usleep(kFilePollMicroseconds);
    }
    return read_file(file);
  }

  std::string path_;
  int rank_ = 0, size_ = 1;
  int64_t round_ = 0;
  std::chrono::duration<double> timeout_;
};

}  // namespace

Result<std::unique_ptr<ProcessGroup>> make_file_process_group(
    const std::string& path, int rank, int size, double timeout_s) {
  if (size < 1 || rank < 0 || rank >= size) {
    return fail(ErrorKind::kInvalid, "rank {} of {} ranks", rank, size);
  }
  return std::make_unique<FileProcessGroup>(path, rank, size, timeout_s);
}

}  // namespace reprise
