#include "data/formats/dpro/dpro_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "data/formats/dpro/dpro_messages.h"
#include "data/formats/dpro/dpro_rank.h"
#include "data/formats/dpro/dpro_servers.h"
#include "data/formats/horovod/horovod_events.h"
#include "data/io/decimal.h"
#include "data/io/json_scan.h"
#include "data/trace/epoch.h"

namespace reprise {
namespace {

/// Graphs and metadata are held whole.
constexpr int64_t kLargestWhole = int64_t{1} << 28;
/// Of BytePS, beside the hosts.
constexpr const char *kMessages = "comm_timeline.json",
                     *kServers = "server_timeline.json";
constexpr std::string_view kTrace = "trace.json.gz", kPlainTrace = "trace.json";

struct RankPlace {
  std::string folder;  ///< Within the listing: "host0/0/", "" for itself.
  std::string host;
  int32_t device = 0;
  bool first_of_host = true;
};

size_t depth_of(std::string_view folder) {
  return static_cast<size_t>(std::count(folder.begin(), folder.end(), '/'));
}

/// The last part but `back` of a path that may end in a slash.
std::string part_of_path(std::string_view path, size_t back) {
  while (true) {
    while (path.ends_with('/')) path.remove_suffix(1);
    const size_t slash = path.rfind('/');
    if (back == 0 || slash == path.npos) {
      return std::string(slash == path.npos ? path : path.substr(slash + 1));
    }
    path = path.substr(0, slash);
    --back;
  }
}

/// The ranks of a directory that is a trial, a host or a GPU of dPRO; empty if
/// it is none.
class Layout {
 public:
  explicit Layout(const DirectoryListing& listing)
      : listing_(listing), files_(listing.files.begin(), listing.files.end()) {}

  std::vector<RankPlace> ranks() const {
    constexpr size_t kDeepest = 2;
    std::vector<RankPlace> places;
    bool is_dpro = false;
    for (const std::string& file : listing_.files) {
      const size_t slash = file.rfind('/');
      const size_t name = slash == file.npos ? 0 : slash + 1;
      if (file.substr(name) != kTrace && file.substr(name) != kPlainTrace) {
        continue;
      }
      const std::string folder = file.substr(0, name);
      if (!places.empty() && places.back().folder == folder) continue;
      is_dpro |= has_marks(folder);
      if (depth_of(folder) > kDeepest) return {};
      RankPlace place = place_of(folder);
      place.first_of_host = places.empty() || places.back().host != place.host;
      places.push_back(std::move(place));
      if (depth_of(folder) != depth_of(places[0].folder)) return {};
    }
    return is_dpro ? places : std::vector<RankPlace>{};
  }

  bool has(const std::string& file) const { return files_.count(file) > 0; }

 private:
  bool has_marks(const std::string& folder) const {
    for (const char* mark : {"dag.gml", "gradient_name_list.json",
                             "gradient_name2ID.json", "nccl_rank_graph.json"}) {
      if (has(folder + mark)) return true;
    }
    return false;
  }

  RankPlace place_of(const std::string& folder) const {
    const std::string whole = listing_.path + "/" + folder;
    const auto device = parse_integer(part_of_path(whole, 0));
    const bool fits = device && *device >= 0 && *device <= INT16_MAX;
    return {folder, part_of_path(whole, 1),
            fits ? static_cast<int32_t>(*device) : 0, true};
  }

  const DirectoryListing& listing_;
  std::set<std::string> files_;
};

/// What a rank's small files say; kept from rank to rank, since it is often the
/// same in all.
struct Shared {
  std::string gml, names, ids, sizes;  ///< As read last.
  DproGraph graph;
  DproTensors tensors;
  std::vector<DproMessage> messages;  ///< Of all workers so far.
};

class DproRankImport {
 public:
  DproRankImport(const DirectoryListing& listing, const Layout& layout,
                 const RankPlace& place, DirectoryPart& part)
      : listing_(listing), layout_(layout), place_(place), part_(part) {
    part_.report.path = path_of("");
    while (part_.report.path.ends_with('/')) part_.report.path.pop_back();
  }

  Status run(uint32_t rank, uint32_t world_size, bool over_servers,
             Shared& shared) {
    learn(shared);
    TraceSpool& spool = *part_.spool;
    RankInfo info;
    info.rank = rank;
    info.host = place_.host;
    info.clock_domain.clear();
    const uint32_t local = spool.add_rank(std::move(info));
    DproOperations operations(spool, part_.report, local, place_.device,
                              shared.graph);
    DproCommunication communication(spool, part_.report, local, operations,
                                    shared.tensors);
    const std::string trace = layout_.has(place_.folder + std::string(kTrace))
                                  ? std::string(kTrace)
                                  : std::string(kPlainTrace);
    read(trace, [&](ByteSource& source) { return operations.read(source); });
    operations.finish();
    read("comm.json",
         [&](ByteSource& source) { return communication.read_rows(source); });
    read("comm_detail.json",
         [&](ByteSource& source) { return communication.read_chunks(source); });
    communication.finish();
    if (const uint32_t ring = ring_of(communication); ring >= world_size) {
      spool.set_environment("NCCL_ALGO", "Ring");
      world_size = ring;
      spool.set_environment("world_size", std::to_string(world_size));
    }
    int64_t next_id = 0;
    const std::vector<DproExchange> exchanges =
        exchange(operations, local, world_size, next_id, shared);
    DproRank(spool, part_.report, local, world_size, shared.graph,
             shared.tensors)
        .add(operations, communication, exchanges, next_id);
    describe(operations, communication, over_servers, spool.rank(local));
    return {};
  }

 private:
  /// Ranks of the ring that the chunks went round, which may not all be here:
  /// one of n passes 2 (n - 1) in turn. 0 where nothing tells: two ranks pass
  /// as many in a tree. Source: dPRO counts a
  /// tensor's parts so.
  static uint32_t ring_of(const DproCommunication& communication) {
    constexpr uint32_t kMostRanks = 4096;
    const uint32_t turns = communication.chunks_in_turn();
    const uint32_t ranks = turns / 2 + 1;
    const bool is_ring = turns > 2 && turns % 2 == 0 && ranks <= kMostRanks;
    return is_ring ? ranks : 0;
  }

  std::string path_of(const std::string& file) const {
    return listing_.path + (listing_.path.ends_with('/') ? "" : "/") +
           place_.folder + file;
  }

  /// A file that is damaged loses what is bad; that is counted.
  template <typename Read>
  void read(const std::string& file, Read&& use) {
    if (layout_.has(place_.folder + file)) read_at(path_of(file), use);
  }

  template <typename Read>
  void read_at(const std::string& path, Read&& use) {
    const Status done = visit_inputs(
        path, [&](InputFile& input) -> Status { return use(*input.source); });
    if (done) return;
    ++part_.report.dropped["unreadable file"];
    part_.report.missing.push_back(
        path + " could not be read whole: " + done.error().message);
  }

  std::string whole(const std::string& file) {
    std::string text;
    read(file, [&](ByteSource& source) -> Status {
      Result<std::string> all = read_all(source, kLargestWhole);
      if (!all) return pass(all.error());
      text = std::move(*all);
      part_.report.bytes += static_cast<int64_t>(text.size());
      return {};
    });
    return text;
  }

  /// Messages of the host to servers, which its first GPU sends.
  std::vector<DproExchange> exchange(const DproOperations& operations,
                                     uint32_t rank, uint32_t world_size,
                                     int64_t& next_id, Shared& shared) {
    const auto worker = number_at_end(place_.host);
    if (!place_.first_of_host || !worker || !layout_.has(kMessages)) return {};
    DproMessages messages(*part_.spool, part_.report, rank, *worker, world_size,
                          operations, shared.tensors, next_id);
    read_at(listing_.path + "/" + kMessages,
            [&](ByteSource& source) { return messages.read(source); });
    std::vector<DproExchange> exchanges = messages.finish();
    shared.messages.insert(shared.messages.end(), messages.messages().begin(),
                           messages.messages().end());
    return exchanges;
  }

  void learn(Shared& shared) {
    if (std::string text = whole("dag.gml"); text != shared.gml) {
      shared.gml = std::move(text);
      const Result<GmlGraph> gml = parse_gml(shared.gml);
      if (!gml && !shared.gml.empty()) {
        ++part_.report.dropped["unreadable file"];
        part_.report.missing.push_back("dag.gml: " + gml.error().message);
      }
      shared.graph = gml ? DproGraph(*gml) : DproGraph();
      note_losses(gml ? *gml : GmlGraph());
    }
    std::string names = whole("gradient_name_list.json");
    std::string ids = names.empty() ? whole("gradient_name2ID.json") : "";
    std::string sizes = whole("metadata.json");
    if (names == shared.names && ids == shared.ids && sizes == shared.sizes) {
      return;
    }
    shared.tensors = {};
    shared.tensors.learn_names(names);
    shared.tensors.learn_ids(ids);
    shared.tensors.learn_sizes(sizes);
    shared.names = std::move(names);
    shared.ids = std::move(ids);
    shared.sizes = std::move(sizes);
  }

  void note_losses(const GmlGraph& gml) {
    if (gml.dangling_edges > 0) {
      part_.report.dropped["edge to no node"] += gml.dangling_edges;
    }
    if (gml.truncated) ++part_.report.dropped["truncated"];
  }

  void describe(const DproOperations& operations,
                const DproCommunication& communication, bool over_servers,
                RankInfo& rank) {
    FileReport& report = part_.report;
    const auto& all = operations.operations();
    if (!all.empty() && all[0].start_ns >= kEpochNs) {
      rank.clock_domain = "epoch";
    }
    report.dialect =
        over_servers
            ? "byteps"
            : fmt::format("horovod, {} channel{}", communication.channels(),
                          communication.channels() == 1 ? "" : "s");
    if (!layout_.has(place_.folder + "dag.gml")) {
      report.missing.push_back(
          "There is no dag.gml: what depends on what is only known by the "
          "order of streams.");
    }
    if (over_servers && !layout_.has(kServers)) {
      report.missing.push_back(
          "There is no server_timeline.json: what servers wait for and do is "
          "not known, and bandwidth shrinks only workers' own messages.");
    }
    if (all.empty()) {
      report.missing.push_back("The framework's timeline has no operator.");
    }
    if (communication.reductions().empty() && !over_servers) {
      report.missing.push_back(
          "No communication is recorded: comm.json holds no tensor.");
    }
    refuse_if_empty(*part_.spool, report);
  }

  const DirectoryListing& listing_;
  const Layout& layout_;
  const RankPlace& place_;
  DirectoryPart& part_;
};

class DproReader final : public DirectoryReader {
 public:
  std::string_view kind() const override { return "dpro"; }

  bool recognizes(const DirectoryListing& directory) const override {
    return !Layout(directory).ranks().empty();
  }

  Status read(const DirectoryListing& directory,
              const std::string& spool_directory,
              std::vector<DirectoryPart>& parts) const override {
    const Layout layout(directory);
    const std::vector<RankPlace> places = layout.ranks();
    const auto world_size = static_cast<uint32_t>(places.size());
    const bool over_servers = layout.has(kMessages);
    Shared shared;
    for (uint32_t rank = 0; rank < world_size; ++rank) {
      DirectoryPart part;
      part.spool.emplace(spool_directory);
      part.spool->set_environment("world_size", std::to_string(world_size));
      DproRankImport import(directory, layout, places[rank], part);
      if (Status done = import.run(rank, world_size, over_servers, shared);
          !done) {
        return done;
      }
      if (!part.report.refused.empty()) part.spool.reset();
      parts.push_back(std::move(part));
    }
    if (layout.has(kServers)) {
      read_servers(directory.path + "/" + kServers, spool_directory, world_size,
                   shared.messages, parts);
    }
    return {};
  }

 private:
  static void read_servers(const std::string& path,
                           const std::string& spool_directory,
                           uint32_t first_server,
                           const std::vector<DproMessage>& messages,
                           std::vector<DirectoryPart>& parts) {
    DirectoryPart part;
    part.spool.emplace(spool_directory);
    part.report.path = path;
    part.report.dialect = "byteps servers";
    const Status read = visit_inputs(path, [&](InputFile& input) -> Status {
      return read_dpro_servers(*input.source, first_server, messages,
                               *part.spool, part.report);
    });
    if (!read) {
      ++part.report.dropped["unreadable file"];
      part.report.missing.push_back(read.error().message);
    }
    refuse_if_empty(*part.spool, part.report);
    if (!part.report.refused.empty()) part.spool.reset();
    parts.push_back(std::move(part));
  }
};

}  // namespace

const DirectoryReader& dpro_reader() {
  static const DproReader reader;
  return reader;
}

}  // namespace reprise
