// The portfolio: four chains from the list schedules by critical path, forwards
// and on the mirrored graph, and from the caller's order. All search on
// priorities until that stalls; then even chains drift and odd ones restart
// from a kick, and all finish a round with exact windows. A chain that lags
// behind goes on from the best. Ends at the lower bound or when evaluations are
// spent.
//
// Chains run in parallel (TBB) in rounds of fixed length and are reduced by
// index, so threads change nothing but the time taken.
#include "optimizer/order/order_search.h"

#include <algorithm>
#include <thread>

#include "data/parallel.h"
#include "optimizer/order/list_schedule.h"
#include "optimizer/order/order_bounds.h"
#include "optimizer/order/order_chain.h"

namespace reprise {
namespace {

constexpr uint64_t kChains = 4;
constexpr uint64_t kEvaluationsOfRound = 4000;  ///< For each chain.
/// Rounds of local search on priorities without progress after which chains
/// refine.
constexpr int kStallsBeforeRefining = 3;
/// Rounds a chain may lag behind the best before it goes on from it.
constexpr int kRoundsBeforeAdoption = 6;

OrderSolution mirrored_list_schedule(const OrderGraph& graph) {
  std::vector<uint32_t> sequence =
      schedule_by_critical_path(graph.mirrored()).sequence;
  std::reverse(sequence.begin(), sequence.end());
  return evaluate_sequence(graph, std::move(sequence));
}

void sort_by_start(OrderSolution& solution, const OrderGraph& graph) {
  std::vector<uint32_t> place(graph.size());
  for (uint32_t i = 0; i < graph.size(); ++i) place[solution.sequence[i]] = i;
  std::sort(solution.sequence.begin(), solution.sequence.end(),
            [&](uint32_t a, uint32_t b) {
              return std::pair(solution.start[a], place[a]) <
                     std::pair(solution.start[b], place[b]);
            });
}

std::vector<OrderSolution> first_solutions(const OrderGraph& graph,
                                           const std::vector<uint32_t>* start) {
  std::vector<OrderSolution> solutions;
  if (start != nullptr) solutions.push_back(evaluate_sequence(graph, *start));
  solutions.push_back(schedule_by_critical_path(graph));
  solutions.push_back(mirrored_list_schedule(graph));
  for (OrderSolution& solution : solutions) sort_by_start(solution, graph);
  return solutions;
}

class Search {
 public:
  Search(const OrderGraph& graph, const OrderSearchOptions& options,
         const std::vector<uint32_t>* start);
  OrderSearchResult run();

 private:
  void round(size_t index);
  bool is_done(const OrderSearchResult& result) const;
  void reduce(OrderSearchResult& result);
  bool out_of_time() const;

  const OrderGraph& graph_;
  const OrderSearchOptions& options_;
  const std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
  std::vector<OrderSolution> first_;
  std::vector<OrderChain> chains_;
  bool refining_ = false;  ///< Local search on priorities has stalled.
  int stalled_ = 0;
};

Search::Search(const OrderGraph& graph, const OrderSearchOptions& options,
               const std::vector<uint32_t>* start)
    : graph_(graph), options_(options), first_(first_solutions(graph, start)) {
  for (uint64_t i = 0; i < kChains; ++i) {
    chains_.emplace_back(graph, first_[i % first_.size()],
                         options.seed * kChains + i);
  }
}

bool Search::out_of_time() const {
  if (options_.should_stop && options_.should_stop()) return true;
  return options_.time_limit &&
         std::chrono::steady_clock::now() - begin_ >= *options_.time_limit;
}

/// Even chains refine what they have, odd ones come down from a kick; both end
/// in exact windows where those are asked for.
void Search::round(size_t index) {
  OrderChain& chain = chains_[index];
  if (!refining_) {
    chain.search_priorities(kEvaluationsOfRound);
    return;
  }
  if (index % 2 == 0) {
    chain.drift(kEvaluationsOfRound / 4);
  } else {
    chain.kick();
    chain.search_priorities(kEvaluationsOfRound);
  }
  if (options_.windows)
    chain.improve_windows(options_.window_ops, kEvaluationsOfRound);
}

void Search::reduce(OrderSearchResult& result) {
  bool improved = false;
  result.evaluations = 0;
  result.windows_solved = result.windows_improved = 0;
  for (const OrderChain& chain : chains_) {
    if (chain.best().makespan < result.best.makespan) {
      result.best = chain.best();
      improved = true;
    }
    result.evaluations += chain.counts().evaluations;
    result.windows_solved += chain.counts().windows_solved;
    result.windows_improved += chain.counts().windows_improved;
  }
  stalled_ = improved ? 0 : stalled_ + 1;
  const bool half_spent = result.evaluations >= options_.evaluations / 2;
  if (!refining_ && (stalled_ >= kStallsBeforeRefining || half_spent)) {
    refining_ = true;
    stalled_ = 0;
  }
  if (stalled_ > 0 && stalled_ % kRoundsBeforeAdoption == 0) {
    for (OrderChain& chain : chains_) {
      if (chain.best().makespan > result.best.makespan)
        chain.adopt(result.best);
    }
  }
}

bool Search::is_done(const OrderSearchResult& result) const {
  return result.best.makespan <= result.lower_bound ||
         result.evaluations >= options_.evaluations || out_of_time();
}

OrderSearchResult Search::run() {
  OrderSearchResult result;
  result.best = *std::min_element(
      first_.begin(), first_.end(),
      [](const auto& a, const auto& b) { return a.makespan < b.makespan; });
  result.lower_bound = order_lower_bound(graph_, result.best.makespan);
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const size_t threads = std::min<size_t>(
      cores, static_cast<size_t>(std::max(1, options_.threads)));
  while (!is_done(result)) {
    parallel_for(chains_.size(), threads, [this](size_t i) { round(i); });
    reduce(result);
  }
  return result;
}

}  // namespace

OrderSearchResult search_order(const OrderGraph& graph,
                               const OrderSearchOptions& options,
                               const std::vector<uint32_t>* start) {
  return Search(graph, options, start).run();
}

}  // namespace reprise
