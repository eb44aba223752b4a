#include "runtime/process/process_group.h"

#include <charconv>
#include <cstdlib>

#include "profiler/recorder.h"

namespace reprise {
namespace {

class SingleProcessGroup : public ProcessGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  Result<std::vector<std::string>> all_gather(std::string_view bytes) override {
    return std::vector<std::string>{std::string(bytes)};
  }
  Result<int64_t> ping(int) override { return Recorder::now_ns(); }
  Status answer_ping(int) override { return {}; }
  std::vector<int> roll_call(double) override { return {}; }
  void abort(int) override {}
};

Result<int> environment_integer(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) {
    return fail(ErrorKind::kInvalid, "environment variable {} is not set",
                name);
  }
  const std::string_view view = text;
  int value = 0;
  const auto [end, error] =
      std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc() || end != view.data() + view.size()) {
    return fail(ErrorKind::kInvalid, "{}={}: expected an integer", name, text);
  }
  return value;
}

}  // namespace

Status ProcessGroup::barrier() {
  Result<std::vector<std::string>> all = all_gather({});
  if (!all) return pass(all.error());
  return {};
}

std::unique_ptr<ProcessGroup> make_single_process_group() {
  return std::make_unique<SingleProcessGroup>();
}

bool started_by_mpi() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr ||
         std::getenv("PMI_RANK") != nullptr ||
         std::getenv("PMIX_RANK") != nullptr;
}

Result<std::unique_ptr<ProcessGroup>> make_process_group(double timeout_s) {
  if (started_by_mpi()) return make_mpi_process_group(timeout_s);
  const char* rendezvous = std::getenv("REPRISE_RENDEZVOUS");
  if (rendezvous == nullptr) return make_single_process_group();
  const Result<int> rank = environment_integer("RANK");
  if (!rank) return pass(rank.error());
  const Result<int> size = environment_integer("WORLD_SIZE");
  if (!size) return pass(size.error());
  return make_file_process_group(rendezvous, *rank, *size, timeout_s);
}

}  // namespace reprise
