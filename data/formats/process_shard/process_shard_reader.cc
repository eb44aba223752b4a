// Two walks over each shard: the first learns what records refer to
// (process_shard_survey.h), then ranks are found over all shards, then the
// second makes events, a spool for each rank. Monotonic clocks of hosts that
// booted apart are brought together by the epoch's, which each shard states
// beside its own.
#include "data/formats/process_shard/process_shard_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <set>

#include "data/formats/process_shard/process_shard_import.h"

namespace reprise {
namespace {

constexpr std::string_view kKind = "process-shard";
constexpr std::string_view kTrainerMagic = "RPRSHARD";

std::string first_bytes(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(
      std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) return {};
  std::array<char, kProcessShardMagic.size()> bytes{};
  return {bytes.data(), std::fread(bytes.data(), 1, bytes.size(), file.get())};
}

std::string command_of(const ProcessIdentity& identity) {
  if (identity.arguments.empty()) return identity.program;
  return fmt::format("{}", fmt::join(identity.arguments, " "));
}

std::string timer_sentence(const GpuTimer& timer) {
  const int64_t residual_ns = timer.residual_ns();
  return fmt::format(
      "NCCL's device timers count on the GPU's clock; they are on the host's "
      "by {}, to within {}.",
      timer.by_kernels() ? "the kernels that CUPTI recorded of the same calls"
                         : "the smallest delay between both",
      residual_ns < 0 ? "an unknown time"
                      : fmt::format("{} us", residual_ns / 1000 + 1));
}

/// Of processes that recorded nothing. Python alone may start a dozen shells.
std::string silence_sentence(
    const std::vector<const RecordedProcess*>& processes) {
  if (processes.size() == 1) {
    return fmt::format(
        "{} is no rank and belongs to none alone: a launcher or a shell.",
        processes.front()->name());
  }
  std::set<std::string> programs;
  for (const RecordedProcess* process : processes) {
    programs.insert(base_name(process->identity.program));
  }
  constexpr size_t kMostNamed = 5;
  const bool is_more = programs.size() > kMostNamed;
  if (is_more)
    programs.erase(std::next(programs.begin(), kMostNamed), programs.end());
  return fmt::format(
      "{} processes that recorded nothing ({}{}) are no rank and belong to "
      "none alone: launchers or shells.",
      processes.size(), fmt::join(programs, ", "), is_more ? ", …" : "");
}

/// "version 130001, PATH" is no more than that; "…: held by nsys" is a loss.
bool tells_a_loss(const std::string& name, const std::string& text) {
  if (name != "cupti") return name.starts_with("cupti ");
  return !text.starts_with("version") || text.find(": ") != std::string::npos;
}

/// A set of shards on its way to spools.
class ShardSet {
 public:
  /// Errors: as ProcessShardContents::open.
  Status add(const std::string& path);
  bool empty() const { return shards_.empty(); }
  /// To be called once all are added; then ranks are known.
  void rank();
  size_t rank_count() const { return ranked_.ranks.size(); }
  /// Errors: kIo.
  Status read_rank(size_t rank, TraceSpool& spool, FileReport& report) const;
  /// For each process that is no rank's.
  std::vector<FileReport> strangers() const;

 private:
  std::vector<const RecordedProcess*> processes_of(size_t rank) const;
  Status read_process(const RecordedProcess& process, RankImport& target,
                      TraceSpool& spool, FileReport& report) const;
  void describe_shard(const RecordedProcess& process,
                      const SurveyedShard& shard, FileReport& report) const;
  void describe_process(const RecordedProcess& process,
                        TraceSpool& spool) const;
  void add_life(const RecordedProcess& process, RankImport& target,
                TraceSpool& spool) const;
  void set_clock(const RecordedProcess& main, const RankImport& target,
                 TraceSpool& spool) const;

  std::vector<SurveyedShard> shards_;
  RankedProcesses ranked_;
  std::optional<CommunicatorMembers> members_;
  bool has_records_ = false;
  /// Boot -> what turns its monotonic clock into the epoch's.
  std::map<std::string, int64_t> epoch_offsets_;
};

Status ShardSet::add(const std::string& path) {
  auto contents = ProcessShardContents::open(path);
  if (!contents) return pass(contents.error());
  auto survey = survey_shard(*contents);
  if (!survey) return pass(survey.error());
  const ProcessIdentity& identity = contents->identity();
  epoch_offsets_.try_emplace(identity.boot_id, identity.epoch_offset_ns);
  has_records_ |= contents->record_count() > 0;
  shards_.push_back({path, std::move(*contents), std::move(*survey)});
  return {};
}

void ShardSet::rank() {
  ranked_ = rank_processes(shards_);
  members_.emplace(ranked_);
}

std::vector<const RecordedProcess*> ShardSet::processes_of(size_t rank) const {
  std::vector<const RecordedProcess*> processes;
  for (const RecordedProcess& process : ranked_.processes) {
    if (process.rank == static_cast<int32_t>(rank)) {
      processes.push_back(&process);
    }
  }
  return processes;
}

void ShardSet::describe_shard(const RecordedProcess& process,
                              const SurveyedShard& shard,
                              FileReport& report) const {
  const ProcessShardContents& contents = shard.contents;
  report.bytes += contents.bytes();
  for (const auto& [what, count] : contents.damage()) {
    report.dropped[what] += count;
  }
  for (const auto& [what, count] : contents.lost()) {
    report.dropped["not recorded: " + what] += count;
  }
  // An exec ends an image, and its shard, wherever it stands.
  const bool replaced = contents.identity().image < process.identity.image;
  if (contents.has_end() || replaced) return;
  const std::string name = base_name(shard.path);
  report.missing.push_back(fmt::format(
      "{}the process ended without closing its shard (killed, or replaced by "
      "a program that is not recorded); what it recorded last is missing.",
      name == base_name(report.path) ? "" : name + ": "));
}

/// Command lines and notes, as the environment of the run.
void ShardSet::describe_process(const RecordedProcess& process,
                                TraceSpool& spool) const {
  std::string prefix = fmt::format(
      "rank {}", ranked_.ranks[static_cast<size_t>(process.rank)].first_number);
  if (!process.is_main) {
    prefix += fmt::format(" process {}", process.identity.process);
  }
  spool.set_environment(prefix + " command", command_of(process.identity));
  for (const size_t shard : process.shards) {
    for (const auto& [name, text] : shards_[shard].contents.notes()) {
      spool.set_environment(fmt::format("{} {}", prefix, name), text);
    }
  }
}

/// Where nothing else was recorded: that a process ran, and when.
void ShardSet::add_life(const RecordedProcess& process, RankImport& target,
                        TraceSpool& spool) const {
  int64_t end_ns = process.identity.start_ns;
  for (const size_t shard : process.shards) {
    if (shards_[shard].contents.has_end()) {
      end_ns = std::max(end_ns, shards_[shard].contents.end_ns());
    }
  }
  Event life;
  life.rank = target.first_local();
  life.stream =
      target.host_stream(life.rank, process, process.identity.process);
  life.kind = EventKind::kAnnotation;
  life.name = spool.intern(base_name(process.identity.program));
  life.enqueue_ns = life.start_ns = process.identity.start_ns;
  life.end_ns = end_ns;
  spool.add(life);
}

/// Hosts that booted apart have monotonic clocks of their own; the epoch's is
/// theirs together, as well as they keep time.
void ShardSet::set_clock(const RecordedProcess& main, const RankImport& target,
                         TraceSpool& spool) const {
  for (uint32_t i = 0; i < target.local_count(); ++i) {
    const uint32_t local = target.first_local() + i;
    const bool is_one_clock = epoch_offsets_.size() < 2;
    spool.rank(local).clock_domain = is_one_clock ? "monotonic" : "epoch";
    if (is_one_clock) continue;
    spool.set_time_base(local, epoch_offsets_.at(main.identity.boot_id));
  }
}

Status ShardSet::read_process(const RecordedProcess& process,
                              RankImport& target, TraceSpool& spool,
                              FileReport& report) const {
  const NcclPairing nccl(shards_, process);
  for (const size_t place : process.shards) {
    describe_shard(process, shards_[place], report);
    ProcessShardImport import(shards_, place, process, nccl, *members_, target,
                              spool, report);
    if (Status read = import.run(); !read) return read;
  }
  describe_process(process, spool);
  for (const size_t place : process.shards) {
    for (const auto& [name, text] : shards_[place].contents.notes()) {
      if (!tells_a_loss(name, text)) continue;
      report.missing.push_back(
          fmt::format("{}: {}: {}", process.name(), name, text));
    }
  }
  if (nccl.timer().is_known()) {
    report.missing.push_back(timer_sentence(nccl.timer()));
  }
  if (!has_records_) add_life(process, target, spool);
  return {};
}

Status ShardSet::read_rank(size_t rank, TraceSpool& spool,
                           FileReport& report) const {
  const JobRank& recorded = ranked_.ranks[rank];
  const RecordedProcess& main = ranked_.processes[recorded.process];
  report.path = shards_[main.shards.front()].path;
  if (rank == 0) report.missing = ranked_.notes;
  if (rank == 0 && !has_records_) {
    report.missing.emplace_back(
        "No process used CUDA, NVTX or NCCL: only when they ran is known.");
  }
  RankImport target(spool, recorded, main);
  std::set<std::string> sources;
  const std::vector<const RecordedProcess*> processes = processes_of(rank);
  for (const RecordedProcess* process : processes) {
    for (const size_t place : process->shards) {
      sources.insert(shards_[place].contents.identity().source);
    }
    Status read = read_process(*process, target, spool, report);
    if (!read) return read;
  }
  report.steps += target.finish_steps();
  set_clock(main, target, spool);
  report.dialect = fmt::format("{}", fmt::join(sources, "+"));
  if (processes.size() > 1) {
    report.dialect += fmt::format(", {} processes", processes.size());
  }
  return {};
}

std::vector<FileReport> ShardSet::strangers() const {
  std::vector<FileReport> reports;
  std::vector<const RecordedProcess*> silent;
  for (const RecordedProcess& process : ranked_.processes) {
    if (process.rank >= 0) continue;
    FileReport& report = reports.emplace_back();
    report.path = shards_[process.shards.front()].path;
    for (const size_t shard : process.shards) {
      describe_shard(process, shards_[shard], report);
    }
    if (process.records > 0) {
      report.dropped["record of a process that is no rank's"] +=
          process.records;
    }
    if (process.records == 0) {
      silent.push_back(&process);
      continue;
    }
    report.missing.push_back(fmt::format(
        "{} is no rank and belongs to none alone: a launcher or a shell.",
        process.name()));
  }
  if (!silent.empty()) {
    reports.front().missing.push_back(silence_sentence(silent));
  }
  return reports;
}

class ProcessShardReader final : public TraceReader {
 public:
  std::string_view kind() const override { return kKind; }

  bool recognizes(const InputFile& input) const override {
    return input.head.starts_with(kProcessShardMagic);
  }

  Status read(InputFile& input, TraceSpool& spool,
              FileReport& report) const override {
    auto file = LocalFile::of(input);
    if (!file) return pass(file.error());
    ShardSet set;
    if (Status added = set.add(file->path()); !added) {
      return pass(added.error(), input.name);
    }
    set.rank();
    const std::string path = report.path;
    for (size_t rank = 0; rank < set.rank_count(); ++rank) {
      if (Status read = set.read_rank(rank, spool, report); !read) return read;
    }
    report.path = path;
    return {};
  }
};

bool is_trainer_file(const std::string& path) {
  return base_name(path) == "trainer.json" ||
         first_bytes(path) == kTrainerMagic;
}

/// Not even its first bytes were written.
bool is_cut_shard(const std::string& path) {
  return first_bytes(path).size() < kProcessShardMagic.size();
}

class ProcessShardsReader final : public DirectoryReader {
 public:
  std::string_view kind() const override { return kKind; }

  bool recognizes(const DirectoryListing& directory) const override {
    bool any = false;
    for (const std::string& file : directory.files) {
      const std::string path = directory.path + "/" + file;
      if (!file.ends_with(".shard") && !file.ends_with("trainer.json")) {
        return false;
      }
      const bool is_process = is_process_shard(path);
      if (!is_process && !is_trainer_file(path) && !is_cut_shard(path)) {
        return false;
      }
      any |= is_process;
    }
    return any;
  }

  Status read(const DirectoryListing& directory,
              const std::string& spool_directory,
              std::vector<DirectoryPart>& parts) const override {
    ShardSet set;
    std::vector<FileReport> refused;
    for (const std::string& file : directory.files) {
      const std::string path = directory.path + "/" + file;
      if (is_trainer_file(path)) continue;
      if (Status added = set.add(path); !added) {
        FileReport& report = refused.emplace_back();
        report.path = path;
        report.refused = is_cut_shard(path)
                             ? "it is empty: its process could not write it"
                             : added.error().message;
      }
    }
    set.rank();
    for (size_t rank = 0; rank < set.rank_count(); ++rank) {
      DirectoryPart& part = parts.emplace_back();
      part.spool.emplace(spool_directory);
      Status read = set.read_rank(rank, *part.spool, part.report);
      if (!read) return read;
    }
    for (const auto& reports : {set.strangers(), refused}) {
      for (const FileReport& report : reports) {
        parts.emplace_back().report = report;
      }
    }
    return {};
  }
};

}  // namespace

const TraceReader& process_shard_reader() {
  static const ProcessShardReader reader;
  return reader;
}

const DirectoryReader& process_shards_reader() {
  static const ProcessShardsReader reader;
  return reader;
}

bool is_process_shard(const std::string& path) {
  return first_bytes(path) == kProcessShardMagic;
}

}  // namespace reprise
