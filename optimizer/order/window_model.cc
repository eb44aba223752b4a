// Builds the mixed-integer program that the header states and has GLPK solve it
// by branch and bound, where GLPK needs help:
//
// - Columns: C, then a start for each op, then a binary for each undecided
//   pair. Times count from the earliest head, so that big-M stays small.
// - Rows: C after every op with its tail; each decided pair that no third op
//   implies; two disjunctive rows for each undecided pair.
// - Incumbents: GLPK's own heuristics find none on disjunctive programs. At
//   every node the callback sorts the ops by their relaxed starts (their
//   middles, to be exact), schedules them in that order as early as possible,
//   and offers the result if it is shorter than what is known.
// - Limits: nodes are counted in the callback and end the search; time never
//   does, so that the answer is the same on every machine.
//
// Disjunctive big-M: A. Manne, "On the job-shop scheduling problem", Operations
// Research 8, 1960. A window of 12 to 16 ops takes milliseconds; cost grows
// exponentially with the undecided pairs.
#include "optimizer/order/window_model.h"

#include <glpk.h>

#include <algorithm>
#include <memory>
#include <numeric>

namespace reprise {
namespace {

/// GLPK keeps an environment a thread; it goes when the thread does.
struct Environment {
  Environment() { glp_term_out(GLP_OFF); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { glp_free_env(); }
};

struct DeleteProblem {
  void operator()(glp_prob* problem) const { glp_delete_prob(problem); }
};

struct Binary {
  uint32_t first = 0, second = 0;  ///< x = 1: first before second.
};

class Model {
 public:
  Model(const OrderGraph& graph, const PairRelaxation& state, int64_t target);
  WindowSolution solve(uint64_t node_limit);

 private:
  int start_column(uint32_t op) const { return static_cast<int>(op) + 2; }
  void add_columns();
  void add_rows();
  void add_row(std::initializer_list<std::pair<int, double>> terms,
               int64_t at_least);
  static void callback(glp_tree* tree, void* model);
  void offer_heuristic(glp_tree* tree);
  WindowOrder order_of(const std::vector<double>& key) const;
  int64_t latest(uint32_t op) const {
    return target_ - state_.tail(op) - graph_.duration(op);
  }

  const OrderGraph& graph_;
  const PairRelaxation& state_;
  const int64_t target_;
  /// Subtracted from all times, to keep coefficients small.
  int64_t base_ = 0;
  std::vector<Binary> binaries_;
  std::unique_ptr<glp_prob, DeleteProblem> problem_;
  std::optional<WindowOrder> best_;
  uint64_t nodes_ = 0, node_limit_ = 0;
};

Model::Model(const OrderGraph& graph, const PairRelaxation& state,
             int64_t target)
    : graph_(graph),
      state_(state),
      target_(target),
      problem_(glp_create_prob()) {
  base_ = state.head(0);
  for (uint32_t op = 1; op < graph.size(); ++op)
    base_ = std::min(base_, state.head(op));
  add_columns();
  add_rows();
}

void Model::add_columns() {
  glp_prob* problem = problem_.get();
  for (const auto& [first, second] : state_.undecided_pairs())
    binaries_.push_back({first, second});
  const auto ops = static_cast<int>(graph_.size());
  glp_add_cols(problem, 1 + ops + static_cast<int>(binaries_.size()));
  glp_set_obj_dir(problem, GLP_MIN);
  glp_set_obj_coef(problem, 1, 1.0);
  glp_set_col_kind(problem, 1, GLP_IV);
  glp_set_col_bnds(problem, 1, GLP_UP, 0, static_cast<double>(target_ - base_));
  for (uint32_t op = 0; op < graph_.size(); ++op) {
    const auto low = static_cast<double>(state_.head(op) - base_);
    const auto high = static_cast<double>(latest(op) - base_);
    glp_set_col_bnds(problem, start_column(op), low < high ? GLP_DB : GLP_FX,
                     low, high);
  }
  for (size_t i = 0; i < binaries_.size(); ++i) {
    glp_set_col_kind(problem, 2 + ops + static_cast<int>(i), GLP_BV);
  }
}

void Model::add_row(std::initializer_list<std::pair<int, double>> terms,
                    int64_t at_least) {
  int columns[4] = {0};
  double values[4] = {0};
  int count = 0;
  for (const auto& [column, value] : terms) {
    columns[++count] = column;
    values[count] = value;
  }
  const int row = glp_add_rows(problem_.get(), 1);
  glp_set_row_bnds(problem_.get(), row, GLP_LO, static_cast<double>(at_least),
                   0);
  glp_set_mat_row(problem_.get(), row, count, columns, values);
}

void Model::add_rows() {
  for (uint32_t op = 0; op < graph_.size(); ++op) {
    add_row({{1, 1.0}, {start_column(op), -1.0}},
            graph_.duration(op) + state_.tail(op));
  }
  for (uint32_t a = 0; a < graph_.size(); ++a) {
    for (uint32_t b = 0; b < graph_.size(); ++b) {
      if (!state_.is_before(a, b)) continue;
      bool implied = false;
      for (uint32_t c = 0; c < graph_.size() && !implied; ++c) {
        implied = state_.is_before(a, c) && state_.is_before(c, b);
      }
      if (implied) continue;
      add_row({{start_column(b), 1.0}, {start_column(a), -1.0}},
              graph_.duration(a));
    }
  }
  for (size_t i = 0; i < binaries_.size(); ++i) {
    const auto [a, b] = binaries_[i];
    const int x = 2 + static_cast<int>(graph_.size() + i);
    const int64_t ab = latest(a) + graph_.duration(a) - state_.head(b);
    const int64_t ba = latest(b) + graph_.duration(b) - state_.head(a);
    add_row({{start_column(b), 1.0},
             {start_column(a), -1.0},
             {x, -static_cast<double>(ab)}},
            graph_.duration(a) - ab);
    add_row({{start_column(a), 1.0},
             {start_column(b), -1.0},
             {x, static_cast<double>(ba)}},
            graph_.duration(b));
  }
}

/// Earliest schedule of the ops taken by ascending key, dependencies first.
WindowOrder Model::order_of(const std::vector<double>& key) const {
  WindowOrder order;
  order.start.resize(graph_.size());
  std::vector<uint32_t> waiting(graph_.size());
  std::vector<std::pair<double, uint32_t>> ready;
  std::vector<int64_t> free_at(graph_.streams(), 0), end(graph_.size(), 0);
  for (uint32_t op = 0; op < graph_.size(); ++op) {
    waiting[op] = static_cast<uint32_t>(graph_.predecessors(op).size());
    if (waiting[op] == 0) ready.emplace_back(key[op], op);
  }
  while (!ready.empty()) {
    const auto next = std::min_element(ready.begin(), ready.end());
    const uint32_t op = next->second;
    ready.erase(next);
    int64_t start = std::max(state_.head(op), free_at[graph_.stream(op)]);
    for (const uint32_t before : graph_.predecessors(op))
      start = std::max(start, end[before]);
    order.start[op] = start;
    end[op] = free_at[graph_.stream(op)] = start + graph_.duration(op);
    order.makespan = std::max(order.makespan, end[op] + state_.tail(op));
    order.sequence.push_back(op);
    for (const uint32_t after : graph_.successors(op)) {
      if (--waiting[after] == 0) ready.emplace_back(key[after], after);
    }
  }
  return order;
}

/// GLPK finds no incumbent by itself: the order of the relaxation's starts is
/// one.
void Model::offer_heuristic(glp_tree* tree) {
  glp_prob* relaxed = glp_ios_get_prob(tree);
  std::vector<double> key(graph_.size());
  for (uint32_t op = 0; op < graph_.size(); ++op) {
    key[op] = glp_get_col_prim(relaxed, start_column(op)) +
              static_cast<double>(graph_.duration(op)) / 2;
  }
  WindowOrder order = order_of(key);
  if (order.makespan > target_ || (best_ && order.makespan >= best_->makespan))
    return;
  best_ = std::move(order);
  std::vector<double> column(2 + graph_.size() + binaries_.size(), 0);
  column[1] = static_cast<double>(best_->makespan - base_);
  for (uint32_t op = 0; op < graph_.size(); ++op) {
    column[static_cast<size_t>(start_column(op))] =
        static_cast<double>(best_->start[op] - base_);
  }
  std::vector<size_t> place(graph_.size());
  for (size_t i = 0; i < place.size(); ++i) place[best_->sequence[i]] = i;
  for (size_t i = 0; i < binaries_.size(); ++i) {
    column[2 + graph_.size() + i] =
        place[binaries_[i].first] < place[binaries_[i].second] ? 1 : 0;
  }
  glp_ios_heur_sol(tree, column.data());
}

void Model::callback(glp_tree* tree, void* info) {
  auto* model = static_cast<Model*>(info);
  const int reason = glp_ios_reason(tree);
  if (reason == GLP_ISELECT && ++model->nodes_ > model->node_limit_)
    glp_ios_terminate(tree);
  if (reason == GLP_IHEUR) model->offer_heuristic(tree);
}

WindowSolution Model::solve(uint64_t node_limit) {
  node_limit_ = node_limit;
  glp_smcp simplex;
  glp_init_smcp(&simplex);
  simplex.msg_lev = GLP_MSG_OFF;
  if (glp_simplex(problem_.get(), &simplex) != 0) return {};
  if (glp_get_status(problem_.get()) == GLP_NOFEAS)
    return {.best = {}, .proved = true, .nodes = 1};
  if (glp_get_status(problem_.get()) != GLP_OPT) return {};
  glp_iocp integer;
  glp_init_iocp(&integer);
  integer.msg_lev = GLP_MSG_OFF;
  integer.br_tech = GLP_BR_DTH;
  integer.bt_tech = GLP_BT_BLB;
  integer.cb_func = &Model::callback;
  integer.cb_info = this;
  const int failed = glp_intopt(problem_.get(), &integer);
  WindowSolution solution{.best = {}, .proved = failed == 0, .nodes = nodes_};
  const int status = glp_mip_status(problem_.get());
  if (status == GLP_OPT || status == GLP_FEAS) {
    std::vector<double> key(graph_.size());
    for (uint32_t op = 0; op < graph_.size(); ++op) {
      key[op] = glp_mip_col_val(problem_.get(), start_column(op));
    }
    WindowOrder order = order_of(key);
    if (!best_ || order.makespan < best_->makespan) best_ = std::move(order);
  }
  if (best_ && best_->makespan <= target_) solution.best = std::move(best_);
  return solution;
}

}  // namespace

WindowSolution solve_window(const OrderGraph& graph,
                            const PairRelaxation& state, int64_t target,
                            uint64_t node_limit) {
  thread_local Environment environment;
  (void)environment;
  return Model(graph, state, target).solve(node_limit);
}

}  // namespace reprise
