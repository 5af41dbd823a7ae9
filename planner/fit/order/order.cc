#include "planner/fit/order/order.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/attrs.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/uses.h"
#include "planner/fit/cost.h"
#include "planner/fit/min_cut.h"
#include "planner/fit/order/search.h"
#include "planner/lifetimes.h"

namespace stowage::fit {

OrderState::OrderState(const OrderProblem& problem)
    : problem_(problem),
      before_(problem.tasks.size()),
      waits_(problem.tasks.size()),
      ready_at_(problem.tasks.size(), -1) {
  for (int32_t task = 0; task < problem.num_tasks(); ++task) {
    const OrderTask& t = problem.tasks[Index(task)];
    waits_[Index(task)] = static_cast<int32_t>(t.after.size());
    for (const int32_t other : t.after) before_[Index(other)].push_back(task);
    if (t.after.empty()) AddReady(task);
  }
  for (const OrderContent& content : problem.contents) {
    unread_.push_back(static_cast<int32_t>(content.readers.size()));
    const bool wanted = content.kept || !content.readers.empty();
    if (content.maker < 0 && wanted) live_ += content.size;
  }
}

Bytes OrderState::LiveDuring(int32_t task) const {
  const OrderTask& t = problem_.tasks[Index(task)];
  Bytes live = live_ + t.scratch;
  for (const int32_t made : t.makes) {
    live += problem_.contents[Index(made)].size;
  }
  for (const int32_t content : t.may_replace) {
    if (DiesWith(content)) return live - problem_.contents[Index(content)].size;
  }
  return live;
}

Bytes OrderState::LiveAfter(int32_t task) const {
  const OrderTask& t = problem_.tasks[Index(task)];
  Bytes live = live_;
  for (const int32_t made : t.makes) {
    const OrderContent& content = problem_.contents[Index(made)];
    if (content.kept || !content.readers.empty()) live += content.size;
  }
  for (const int32_t read : t.reads) {
    if (DiesWith(read)) live -= problem_.contents[Index(read)].size;
  }
  return live;
}

void OrderState::AddReady(int32_t task) {
  ready_at_[Index(task)] = static_cast<int32_t>(ready_.size());
  ready_.push_back(task);
}

void OrderState::RemoveReady(int32_t task) {
  const int32_t at = ready_at_[Index(task)];
  ready_[Index(at)] = ready_.back();
  ready_at_[Index(ready_.back())] = at;
  ready_.pop_back();
}

void OrderState::Run(int32_t task) {
  live_ = LiveAfter(task);
  for (const int32_t read : problem_.tasks[Index(task)].reads) {
    --unread_[Index(read)];
  }
  RemoveReady(task);
  for (const int32_t next : before_[Index(task)]) {
    if (--waits_[Index(next)] == 0) AddReady(next);
  }
  ++ran_;
}

void OrderState::TakeBack(int32_t task) {
  for (const int32_t next : before_[Index(task)]) {
    if (waits_[Index(next)]++ == 0) RemoveReady(next);
  }
  AddReady(task);
  for (const int32_t read : problem_.tasks[Index(task)].reads) {
    ++unread_[Index(read)];
  }
  live_ -= LiveAfter(task) - live_;
  --ran_;
}

std::vector<Bytes> LiveOver(const OrderProblem& problem,
                            std::span<const int32_t> order) {
  STOWAGE_CHECK(order.size() == problem.tasks.size());
  OrderState state(problem);
  std::vector<Bytes> live;
  live.reserve(order.size());
  for (const int32_t task : order) {
    live.push_back(state.LiveDuring(task));
    state.Run(task);
  }
  STOWAGE_CHECK(state.done());
  return live;
}

Bytes PeakOf(const OrderProblem& problem, std::span<const int32_t> order) {
  const std::vector<Bytes> live = LiveOver(problem, order);
  return live.empty() ? OrderState(problem).live()
                      : *std::max_element(live.begin(), live.end());
}

namespace {

using Outcome = OrderSearch::Outcome;

// From a graph to tasks and contents.
class ProblemMaker {
 public:
  ProblemMaker(const Graph& graph, Bytes alignment,
               const LifetimeOptions& options)
      : graph_(graph),
        alignment_(alignment),
        options_(options),
        layouts_(ComputeLayouts(graph)),
        uses_(graph, layouts_),
        content_of_(Index(graph.num_values()), -1) {}

  OrderProblem Make() {
    problem_.tasks.resize(Index(graph_.num_nodes()));
    for (ValueId id = 0; id < graph_.num_values(); ++id) AddContent(id);
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) AddNode(n);
    return std::move(problem_);
  }

 private:
  ValueId RootOf(ValueId id) const { return layouts_[Index(id)].root; }

  // A content for each root that is packed; the rest is reserved.
  void AddContent(ValueId id) {
    const ValueInfo& value = graph_.value(id);
    if (RootOf(id) != id) return;
    if (value.is_leaf() && value.role != Role::kSaved) return;
    content_of_[Index(id)] = static_cast<int32_t>(problem_.contents.size());
    problem_.contents.push_back(
        {.size = value.on_host ? 0 : AlignUp(value.type.bytes(), alignment_),
         .maker = value.producer,
         .kept = uses_.is_output(id),
         .readers = {uses_.uses(id).begin(), uses_.uses(id).end()}});
  }

  void AddNode(NodeId n) {
    const Node& node = graph_.node(n);
    OrderTask& task = problem_.tasks[Index(n)];
    for (const ValueId input : node.inputs) {
      const ValueInfo& value = graph_.value(input);
      if (!value.is_leaf()) task.after.push_back(value.producer);
      const int32_t content = content_of_[Index(RootOf(input))];
      if (content >= 0) task.reads.push_back(content);
    }
    // An update runs after all users of the old content.
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      for (const NodeId user : uses_.uses(RootOf(node.inputs[Index(r)]))) {
        if (user < n) task.after.push_back(user);
      }
    }
    for (std::vector<int32_t>* list : {&task.after, &task.reads}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    for (const ValueId result : node.results) {
      if (RootOf(result) == result) {
        task.makes.push_back(content_of_[Index(result)]);
      }
    }
    if (options_.workspace) {
      task.scratch = AlignUp(options_.workspace(graph_, node), alignment_);
    }
    if (options_.in_place) FindReplaceable(node, &task);
  }

  // Finds the contents that result 0 may be written over if they die here.
  void FindReplaceable(const Node& node, OrderTask* task) const {
    const InPlace in_place(graph_, layouts_, node);
    for (const int32_t content : task->reads) {
      const bool replaceable =
          in_place.MayTakeOver(node.inputs.size(), [&](size_t i) {
            return content_of_[Index(RootOf(node.inputs[i]))] == content;
          });
      if (replaceable) task->may_replace.push_back(content);
    }
  }

  const Graph& graph_;
  const Bytes alignment_;
  const LifetimeOptions& options_;
  const Layouts layouts_;
  const Uses uses_;
  std::vector<int32_t> content_of_;  // per value; -1 unless it is a packed root
  OrderProblem problem_;
};

// Divisors of the effort: of a first search, of moves, of a longer search, and of each step of the
// bisection.
constexpr int64_t kFirstShare = 20;
constexpr int64_t kMoveShare = 4;
constexpr int64_t kBoundShare = 3;
constexpr int64_t kStepShare = 24;
// Cuts are not counted in steps of the search, but limited in tasks of all networks together.
constexpr int64_t kCutTasks = 300'000;
constexpr int64_t kMinCuts = 8;

class OrderFinder {
 public:
  OrderFinder(const OrderProblem& problem, int64_t effort)
      : problem_(problem),
        effort_(effort),
        cuts_left_(
            std::max(kMinCuts, kCutTasks / std::max(1, problem.num_tasks()))),
        search_(problem) {}

  MemoryOrder Find() {
    std::vector<int32_t> given(problem_.tasks.size());
    std::iota(given.begin(), given.end(), 0);
    best_.peak = PeakOf(problem_, given);
    best_.order = given;
    best_.bound = OrderState(problem_).live();
    if (given.empty() || !SumsAreSmall()) return best_;
    Tidy(std::move(given));
    Bound();
    Mend();
    Climb(effort_ / kFirstShare);
    Move();
    Climb(effort_ / kBoundShare);
    Bisect();
    return std::move(best_);
  }

 private:
  // Whether minimum cuts can be computed without overflow.
  bool SumsAreSmall() const {
    Bytes left = MinCut::kInfinite - 1;
    for (const OrderContent& content : problem_.contents) {
      if (content.size > left) return false;
      left -= content.size;
    }
    return true;
  }

  bool Ends() const {
    return best_.bound >= best_.peak || search_.steps() >= effort_;
  }

  // The peak, and how often it occurs.
  using Height = std::pair<Bytes, int64_t>;
  Height HeightOf(std::span<const int32_t> order) const {
    const std::vector<Bytes> live = LiveOver(problem_, order);
    const Bytes peak = *std::max_element(live.begin(), live.end());
    return {peak, std::count(live.begin(), live.end(), peak)};
  }

  // Runs tasks that may run at once, without raising the peak, and keeps the order if it is
  // better.
  bool Tidy(std::vector<int32_t> order) {
    std::vector<int32_t> ranks(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      ranks[Index(order[i])] = static_cast<int32_t>(i);
    }
    // It always finds an order, since `order` itself is one.
    search_.Try(PeakOf(problem_, order), ranks, OrderTaste::kRank,
                std::numeric_limits<int64_t>::max() / 2);
    return Keep(search_.order());
  }

  bool Keep(const std::vector<int32_t>& order) {
    const Height height = HeightOf(order);
    if (!(height < HeightOf(best_.order))) return false;
    best_.order = order;
    best_.peak = height.first;
    return true;
  }

  // Raises the bound by cuts at the tasks where the best order is highest; a cut is never above the
  // live bytes of an order.
  void Bound() {
    const std::vector<Bytes> live = LiveOver(problem_, best_.order);
    std::vector<size_t> highest(live.size());
    std::iota(highest.begin(), highest.end(), 0);
    std::stable_sort(highest.begin(), highest.end(),
                     [&](size_t a, size_t b) { return live[a] > live[b]; });
    for (const size_t at : highest) {
      if (live[at] <= best_.bound || cuts_left_ <= kMinCuts / 2) break;
      --cuts_left_;
      best_.bound =
          std::max(best_.bound, CutAt(problem_, best_.order[at]).bytes);
    }
  }

  // Reorders by the cut at the peak: its tasks run before, the rest after, each in the same order.
  void Mend() {
    while (!Ends()) {
      const std::vector<Bytes> live = LiveOver(problem_, best_.order);
      bool mended = false;
      for (size_t at = 0; at < live.size() && !mended; ++at) {
        if (live[at] != best_.peak) continue;
        if (--cuts_left_ < 0) return;
        const int32_t task = best_.order[at];
        const OrderCut cut = CutAt(problem_, task);
        best_.bound = std::max(best_.bound, cut.bytes);
        std::vector<int32_t> order;
        for (const int32_t t : best_.order) {
          if (cut.before[Index(t)]) order.push_back(t);
        }
        order.push_back(task);
        for (const int32_t t : best_.order) {
          if (t != task && !cut.before[Index(t)]) order.push_back(t);
        }
        mended = Tidy(std::move(order));
      }
      if (!mended) return;
    }
  }

  void Move() {
    if (Ends()) return;
    const int64_t effort = effort_ / kMoveShare;
    Tidy(ImproveByMoves(problem_, best_.order, best_.bound, effort));
    Mend();
  }

  Outcome Try(Bytes limit, int64_t effort) {
    std::vector<int32_t> ranks(problem_.tasks.size());
    for (size_t i = 0; i < ranks.size(); ++i) {
      ranks[Index(best_.order[i])] = static_cast<int32_t>(i);
    }
    for (const OrderTaste taste : {OrderTaste::kRank, OrderTaste::kMin}) {
      const Outcome outcome = search_.Try(limit, ranks, taste, effort / 2);
      if (outcome == Outcome::kFound) {
        Keep(search_.order());
        Mend();
      }
      if (outcome == Outcome::kInfeasible) {
        best_.bound = std::max(best_.bound, search_.next());
      }
      if (outcome != Outcome::kStopped) return outcome;
    }
    return Outcome::kStopped;
  }

  // Tries heights upwards from the bound while all below are refuted.
  void Climb(int64_t effort) {
    const int64_t last = search_.steps() + effort;
    while (!Ends() && search_.steps() < last) {
      const int64_t left = last - search_.steps();
      if (Try(best_.bound, left) == Outcome::kStopped) return;
    }
  }

  // Bisects between the bound and the best order.
  void Bisect() {
    Bytes low = best_.bound;
    while (!Ends() && best_.peak - low > 1) {
      const Bytes limit = low + (best_.peak - low) / 2;
      if (Try(limit, effort_ / kStepShare) != Outcome::kFound) low = limit;
      low = std::max(low, best_.bound);
    }
  }

  const OrderProblem& problem_;
  const int64_t effort_;
  int64_t cuts_left_;
  OrderSearch search_;
  MemoryOrder best_;
};

}  // namespace

OrderProblem MakeOrderProblem(const Graph& graph, Bytes alignment,
                              const LifetimeOptions& options) {
  return ProblemMaker(graph, alignment, options).Make();
}

MemoryOrder FindMemoryOrder(const OrderProblem& problem, int64_t effort) {
  return OrderFinder(problem, effort).Find();
}

Result<OrderedPlan> PlanInMemoryOrder(const Graph& graph,
                                      const PlanOptions& options,
                                      int64_t effort) {
  PlanOptions any_size = options;  // the budget applies at the end
  any_size.budget.reset();
  OrderedPlan ordered;
  STOWAGE_ASSIGN_OR_RETURN(ordered.plan, PlanMemory(graph, any_size));
  ordered.graph = graph;
  ordered.packer = options.packer;
  const OrderProblem problem = MakeOrderProblem(
      graph, options.alignment,
      {.in_place = options.in_place, .workspace = NodeWorkspace(options)});
  const MemoryOrder found = FindMemoryOrder(problem, effort);
  const RegionBytes& regions = ordered.plan.regions;
  ordered.bound = regions.weights + regions.state + regions.io + found.bound;
  if (ordered.plan.arena_bytes() > ordered.bound) {
    STOWAGE_ASSIGN_OR_RETURN(Graph reordered, Reorder(graph, found.order));
    STOWAGE_ASSIGN_OR_RETURN(Plan plan, PlanMemory(reordered, any_size));
    if (!plan.optimal && options.packer == Packer::kGreedy) {
      any_size.packer = Packer::kBest;
      STOWAGE_ASSIGN_OR_RETURN(plan, PlanMemory(reordered, any_size));
    }
    if (plan.arena_bytes() < ordered.plan.arena_bytes()) {
      ordered.graph = std::move(reordered);
      ordered.plan = std::move(plan);
      ordered.packer = any_size.packer;
    }
  }
  if (options.budget && ordered.plan.arena_bytes() > *options.budget) {
    any_size.budget = options.budget;
    const Result<Plan> refused = PlanMemory(ordered.graph, any_size);
    STOWAGE_CHECK(!refused.ok());
    return refused.error();
  }
  ordered.plan.order = "memory";
  return ordered;
}

namespace {

using Body = std::shared_ptr<const Graph>;

class BodyOrderer {
 public:
  BodyOrderer(const PlanOptions& options, int64_t effort)
      : options_(options),
        effort_(effort),
        workspace_(NodeWorkspace(options)) {}

  Result<Graph> Order(const Graph& graph) {
    GraphBuilder g(graph.name());
    GraphCopy copy(graph, &g);
    copy.DeclareLeaves();
    bool changed = false;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (BodiesOf(node).empty()) {
        copy.CopyNode(id);
        continue;
      }
      SubGraphs bodies;
      for (const Body& body : BodiesOf(node)) {
        // Micro-batches of a batch share their bodies.
        auto at = ordered_.find(body.get());
        if (at == ordered_.end()) {
          STOWAGE_ASSIGN_OR_RETURN(Body found, OrderBody(graph, node, body));
          at = ordered_.emplace(body.get(), std::move(found)).first;
        }
        changed = changed || at->second != body;
        bodies.push_back(at->second);
      }
      copy.CopyNode(id, AttrsWith(node, std::move(bodies)));
    }
    if (!changed) return graph;
    copy.DeclareOutputs();
    return g.Finish();
  }

 private:
  static Attrs AttrsWith(const Node& node, SubGraphs bodies) {
    Attrs attrs = node.attrs;
    attrs.Set("bodies", std::move(bodies));
    return attrs;
  }

  // The arena of the body if it were the only one of the node.
  Bytes ArenaOf(const Graph& graph, const Node& node, const Body& body) const {
    Node alone = node;
    alone.attrs = AttrsWith(node, SubGraphs{body});
    return workspace_(graph, alone);
  }

  // The best of the body as it is, with its inner bodies ordered, and also ordered itself.
  Result<Body> OrderBody(const Graph& graph, const Node& node,
                         const Body& body) {
    if (HoldsCollectives(*body)) return body;
    STOWAGE_ASSIGN_OR_RETURN(Graph inside, Order(*body));
    OrderProblem problem = MakeOrderProblem(
        inside, options_.alignment,
        {.in_place = options_.in_place, .workspace = workspace_});
    for (OrderContent& content : problem.contents) {
      if (!content.kept) continue;  // all but outputs die
      content.size = 0;
      if (content.maker >= 0) {
        problem.tasks[Index(content.maker)].may_replace.clear();
      }
    }
    STOWAGE_ASSIGN_OR_RETURN(
        Graph reordered,
        Reorder(inside, FindMemoryOrder(problem, effort_).order));
    Body best = body;
    Bytes least = ArenaOf(graph, node, body);
    for (Graph* const each : {&inside, &reordered}) {
      Body made = std::make_shared<const Graph>(std::move(*each));
      const Bytes arena = ArenaOf(graph, node, made);
      if (arena >= least) continue;
      least = arena;
      best = std::move(made);
    }
    return best;
  }

  const PlanOptions& options_;
  const int64_t effort_;
  const WorkspaceFn workspace_;
  std::map<const Graph*, Body> ordered_;
};

}  // namespace

Result<Graph> OrderBodies(const Graph& graph, const PlanOptions& options,
                          int64_t effort) {
  const bool has_bodies = std::ranges::any_of(
      graph.nodes(), [](const Node& node) { return !BodiesOf(node).empty(); });
  if (!has_bodies) return graph;
  return BodyOrderer(options, effort).Order(graph);
}

}  // namespace stowage::fit
