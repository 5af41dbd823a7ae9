#include "planner/fit/recompute/simulation.h"

#include <algorithm>

#include "base/result.h"
#include "ir/graph_copy.h"
#include "ir/op_def.h"
#include "ir/uses.h"

namespace stowage::fit {
namespace {

// Of a base; more would shorten runs little, and each is a copy of a run's state.
constexpr NodeId kCheckpoints = 8;

}  // namespace

Simulation::Simulation(const Graph& graph, const SimulationOptions& options)
    : graph_(graph),
      options_(options),
      layouts_(ComputeLayouts(graph)),
      uses_(graph, layouts_) {
  const std::vector<double> costs =
      options.cost ? options.cost(graph) : FlopsOfNodes(graph);
  STOWAGE_CHECK(costs.size() == Index(graph.num_nodes()));
  for (const Node& node : graph.nodes()) {
    const OpDef& def = GetOpDef(node.op);
    NodeInfo info;
    info.cost = costs[nodes_.size()];
    info.workspace = options.workspace ? AlignUp(options.workspace(graph, node),
                                                 options.alignment)
                                       : 0;
    info.first_input = static_cast<int32_t>(inputs_.size());
    info.num_inputs = static_cast<int32_t>(node.inputs.size());
    info.first_result = node.results[0];
    info.num_results = static_cast<int32_t>(node.results.size());
    // What lies outside is written over nothing that is packed.
    const bool is_outside =
        options.outputs_outside && uses_.is_output(node.results[0]);
    if (options.in_place && !is_outside) {
      info.in_place = InPlace(graph, layouts_, node);
    }
    info.updates = def.updates;
    info.is_view = def.is_view();
    info.is_reload = node.op == OpKind::kReload;
    info.is_exchange = IsExchange(node.op);
    has_exchanges_ = has_exchanges_ || info.is_exchange;
    cost_ += info.cost;
    nodes_.push_back(info);
    inputs_.insert(inputs_.end(), node.inputs.begin(), node.inputs.end());
  }
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    ValueFacts facts;
    const bool is_packed =
        !info.on_host && !(options.outputs_outside && uses_.is_output(id));
    facts.slot = is_packed ? AlignUp(info.type.bytes(), options.alignment) : 0;
    facts.root = layouts_[Index(id)].root;
    if (info.is_leaf()) leaves_.push_back(id);
    if (info.role == Role::kSaved) saved_.push_back(id);
    const bool is_view =
        !info.is_leaf() && nodes_[Index(info.producer)].is_view;
    facts.content =
        is_view ? values_[Index(graph.node(info.producer).inputs[0])].content
                : id;
    values_.push_back(facts);
  }
  stays_from_.assign(values_.size(), 0);
  FindLastStages();
  FindGaps();
  FindChecks();
  RunForward();
}

void Simulation::FindLastStages() {
  const auto updated = [&](ValueId id) {
    const NodeId update = uses_.overwriter(id);
    return update == kNoNode ? graph_.num_nodes() : update;
  };
  for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
    const Node& node = graph_.node(n);
    const OpDef& def = GetOpDef(node.op);
    NodeInfo& info = nodes_[Index(n)];
    info.last_stage = graph_.num_nodes();
    for (const ValueId input : node.inputs) {
      info.last_stage = std::min(info.last_stage, updated(input));
    }
    for (const ValueId result : node.results) {
      info.last_stage = std::min(info.last_stage, updated(result));
    }
    // A param or a state can be reloaded again, until it is updated.
    const bool reloads_leaf =
        node.op == OpKind::kReload && graph_.value(node.inputs[0]).is_leaf();
    if (info.updates > 0 || (def.host_inputs != 0 && !reloads_leaf) ||
        def.results_on_host || def.collective) {
      info.last_stage = n;
    }
  }
}

bool MayBeDropped(const Graph& graph, const Layouts& layouts, const Uses& uses,
                  ValueId id) {
  const ValueInfo& info = graph.value(id);
  return layouts[Index(id)].root == id && !info.is_leaf() && !info.on_host &&
         graph.node(info.producer).phase == Phase::kForward &&
         !uses.is_output(id) && uses.overwriter(id) == kNoNode;
}

void Simulation::FindGaps() {
  for (const GraphOutput& output : graph_.outputs()) {
    const NodeId producer = graph_.value(output.value).producer;
    if (producer != kNoNode) nodes_[Index(producer)].is_output = true;
  }
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    first_gap_.push_back(gaps_.size());
    if (!MayBeDropped(graph_, layouts_, uses_, id)) continue;
    candidates_.push_back(id);
    const std::span<const NodeId> forward = uses_.forward_readers(id);
    const std::span<const NodeId> later = uses_.later_readers(id);
    NodeId from = forward.empty() ? graph_.value(id).producer : forward.back();
    for (const NodeId to : later) {
      gaps_.push_back({id, from, to});
      as_given_.push_back(Fate::kKept);
      from = to;
    }
    if (!later.empty()) continue;
    gaps_.push_back({id, from, graph_.num_nodes()});
    as_given_.push_back(Fate::kRecomputed);
  }
  first_gap_.push_back(gaps_.size());
}

void Simulation::FindChecks() {
  for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
    NodeInfo& info = nodes_[Index(n)];
    info.first_check = static_cast<int32_t>(checks_.size());
    for (const ValueId input : inputs(info)) {
      const ValueFacts& facts = values_[Index(input)];
      const bool stays = facts.root == input && !is_candidate(input) &&
                         uses_.overwriter(input) == kNoNode;
      if (stays) continue;
      checks_.push_back(
          {input, facts.root, facts.content, graph_.value(input).producer});
    }
    info.num_checks = static_cast<int32_t>(checks_.size()) - info.first_check;
  }
}

// What all runs have in common, and where they begin to differ.
void Simulation::RunForward() {
  const auto values = Index(graph_.num_values());
  at_start_.has_run.assign(nodes_.size(), 0);
  at_start_.latest.assign(values, -1);
  at_start_.made_at.assign(values, kNoNode);
  at_start_.upper.assign(values, 0);
  for (const ValueId leaf : leaves_) at_start_.latest[Index(leaf)] = leaf;
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    at_start_.holds.push_back(id);
    at_start_.value_of.push_back(id);
    at_start_.root_of.push_back(id);
    at_start_.gap.push_back(static_cast<int32_t>(first_gap_[Index(id)]));
  }
  Start(at_start_);
  while (forward_ < graph_.num_nodes() &&
         graph_.node(forward_).phase == Phase::kForward && RunStage(forward_)) {
    ++forward_;
  }
  after_forward_ = now_;
}

// Whether a node that runs for `stage` can read the value as it is.
bool Simulation::IsCurrent(const Check& check, NodeId stage) {
  const int32_t root_now = now_.latest[Index(check.root)];
  if (root_now < 0) return false;
  const auto end = static_cast<int32_t>(first_gap_[Index(check.root) + 1]);
  int32_t& gap = now_.gap[Index(check.root)];
  if (!fates_.empty() && gap < end) {
    // The gap that the stage is in, or the last; before the first, all is there.
    while (gaps_[Index(gap)].end < stage && gap + 1 < end) ++gap;
    const NodeId begin = gaps_[Index(gap)].begin;
    const Fate fate = fates_[Index(gap)];
    if (is_base_ && stage > begin) {
      NodeId& asked_at = asked_at_[Index(gap)];
      asked_at = std::min(asked_at, stage);
    }
    if (stage > begin && fate != Fate::kKept) {
      const NodeId made_at = now_.made_at[Index(check.root)];
      if (made_at <= begin) return false;
      if (made_at != stage) {
        if (fate == Fate::kRecomputedEachTime) return false;
        if (fate == Fate::kRecomputedLate &&
            made_at < stays_from_[Index(check.root)]) {
          return false;
        }
      }
    }
  }
  if (check.value == check.root) return true;
  const int32_t now = now_.latest[Index(check.value)];
  return now >= 0 && now_.root_of[Index(now)] == root_now;
}

// Finds the nodes that must run before `node` can, for `stage`. False when one
// of them reads what has been overwritten by then.
bool Simulation::CollectMissing(NodeId node, NodeId stage) {
  ++searches_;
  missing_.clear();
  stack_.assign(1, node);
  while (!stack_.empty()) {
    const NodeId n = stack_.back();
    stack_.pop_back();
    if (n != node) missing_.push_back(n);
    for (const Check& check : checks(nodes_[Index(n)])) {
      if (now_.holds[Index(check.root)] != check.content) return false;
      if (IsCurrent(check, stage)) continue;
      const NodeId producer = check.producer;
      if (producer == kNoNode) return false;
      if (wanted_[Index(producer)] == searches_) continue;
      wanted_[Index(producer)] = searches_;
      stack_.push_back(producer);
    }
  }
  std::sort(missing_.begin(), missing_.end());
  return true;
}

void Simulation::Emit(NodeId id, NodeId stage) {
  const NodeInfo& info = nodes_[Index(id)];
  Progress& now = now_;
  Item item{.node = id,
            .stage = stage,
            .operands = static_cast<int32_t>(now.operands.size()),
            .first_result = info.first_result,
            .again = now.has_run[Index(id)] != 0};
  now.has_run[Index(id)] = 1;
  const auto after = static_cast<int32_t>(now.items.size()) + 1;
  for (const ValueId input : inputs(info)) {
    const int32_t operand = now.latest[Index(input)];
    now.operands.push_back(operand);
    now.upper[Index(now.root_of[Index(operand)])] = after;
  }
  if (item.again) {
    item.first_result = static_cast<int32_t>(now.value_of.size());
    for (int32_t r = 0; r < info.num_results; ++r) {
      now.value_of.push_back(info.first_result + r);
      now.root_of.push_back(-1);
      now.upper.push_back(0);
    }
    now.extra_cost += info.cost;
    if (!info.is_view && !info.is_reload) ++now.nodes_again;
  }
  for (int32_t r = 0; r < info.num_results; ++r) {
    const ValueId result = info.first_result + r;
    const int32_t instance = item.first_result + r;
    const bool is_update = r < info.updates;
    int32_t& root_now = now.root_of[Index(instance)];
    root_now = info.is_view
                   ? now.root_of[Index(now.operands[Index(item.operands)])]
               : is_update ? root(result)
                           : instance;
    now.upper[Index(root_now)] = after;
    if (is_update) now.holds[Index(root(result))] = result;
    now.latest[Index(result)] = instance;
    now.made_at[Index(result)] = stage;
  }
  now.items.push_back(item);
}

void Simulation::Start(const Progress& from) {
  now_ = from;
  wanted_.assign(nodes_.size(), 0);
  searches_ = 0;
}

bool Simulation::RunFrom(NodeId stage) {
  for (NodeId n = stage; n < graph_.num_nodes(); ++n) {
    if (!RunStage(n)) return false;
  }
  MeasureLifetimes();
  return true;
}

bool Simulation::RunNode(NodeId id, NodeId stage) {
  if (!CollectMissing(id, stage)) return false;
  for (const NodeId missing : missing_) Emit(missing, stage);
  Emit(id, stage);
  return true;
}

bool Simulation::RunStage(NodeId stage) {
  // A view is taken when somebody wants it, lest its root live for it alone.
  const NodeInfo& info = nodes_[Index(stage)];
  if (info.is_view && !info.is_output) return true;
  return RunNode(stage, stage);
}

bool Simulation::Run(std::span<const Fate> fates) {
  fates_.assign(fates.begin(), fates.end());
  NodeId differs = graph_.num_nodes();
  for (size_t gap = 0; gap < base_.size(); ++gap) {
    if (fates_[gap] != base_[gap]) differs = std::min(differs, asked_at_[gap]);
  }
  const Checkpoint* from = nullptr;
  for (const Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.stage <= differs) from = &checkpoint;
  }
  const bool is_resumed = !base_.empty() && from != nullptr;
  Start(is_resumed ? from->progress : after_forward_);
  return RunFrom(is_resumed ? from->stage : forward_);
}

bool Simulation::RunBase(std::span<const Fate> fates) {
  base_.assign(fates.begin(), fates.end());
  fates_ = base_;
  asked_at_.assign(fates.size(), graph_.num_nodes());
  checkpoints_.clear();
  Start(after_forward_);
  is_base_ = true;
  const NodeId every = (graph_.num_nodes() - forward_) / kCheckpoints + 1;
  bool runs = true;
  for (NodeId n = forward_; n < graph_.num_nodes() && runs; ++n) {
    if (n > forward_ && (n - forward_) % every == 0) {
      checkpoints_.push_back({n, now_});
    }
    runs = RunStage(n);
  }
  is_base_ = false;
  if (runs) MeasureLifetimes();
  return runs;
}

bool Simulation::Run(const Script& script) {
  fates_.clear();
  auto next = script.begin();
  const bool is_later = next == script.end() || next->stage >= forward_;
  Start(is_later ? after_forward_ : at_start_);
  for (NodeId n = is_later ? forward_ : 0; n < graph_.num_nodes(); ++n) {
    for (; next != script.end() && next->stage == n; ++next) {
      if (next->node >= n || !RunNode(next->node, n)) return false;
    }
    if (!RunStage(n)) return false;
  }
  MeasureLifetimes();
  return next == script.end();
}

Script Simulation::script() const {
  Script script;
  for (const Item& item : now_.items) {
    if (!item.again || nodes_[Index(item.node)].is_view) continue;
    script.push_back({item.stage, item.node});
  }
  return script;
}

bool Simulation::may_take_over(NodeId id, ValueId root_id) const {
  return nodes_[Index(id)].in_place.MayTakeOver(layouts_, graph_.node(id),
                                                root_id);
}

// As in planner/lifetimes.h, on instances.
int32_t Simulation::BufferToTakeOver(const Item& item, int32_t time) const {
  const NodeInfo& info = nodes_[Index(item.node)];
  const size_t count = Index(info.num_inputs);
  const auto buffer = [&](size_t i) {
    const int32_t operand = now_.operands[Index(item.operands) + i];
    return buffer_of_[Index(now_.root_of[Index(operand)])];
  };
  for (size_t i = 0; i < count; ++i) {
    if (!info.in_place.operand(i)) continue;
    const int32_t candidate = buffer(i);
    if (candidate < 0 || buffers_[Index(candidate)].upper != time + 1) continue;
    const auto lies_in = [&](size_t j) { return buffer(j) == candidate; };
    if (info.in_place.MayTakeOver(count, lies_in)) return candidate;
  }
  return -1;
}

// As ExchangesOf (ir/uses.h), on instances.
void Simulation::FindLandings() {
  landings_.clear();
  if (!has_exchanges_) return;
  const auto end = static_cast<int32_t>(now_.items.size());
  const auto root_of = [&](int32_t instance) {
    return now_.root_of[Index(instance)];
  };
  const auto makes = [&](int32_t time, int32_t root) {
    const Item& item = now_.items[Index(time)];
    for (int32_t r = 0; r < nodes_[Index(item.node)].num_results; ++r) {
      if (root_of(item.first_result + r) == root) return true;
    }
    return false;
  };
  size_t first = 0;  // of those that may be under way
  for (int32_t t = 0; t < end; ++t) {
    const Item& item = now_.items[Index(t)];
    const NodeInfo& info = nodes_[Index(item.node)];
    if (!info.is_view && first < landings_.size()) {
      for (int32_t i = 0; i < info.num_inputs; ++i) {
        const int32_t root = root_of(now_.operands[Index(item.operands + i)]);
        for (size_t l = first; l < landings_.size(); ++l) {
          Landing& landing = landings_[l];
          if (landing.lands == end && makes(landing.item, root)) {
            landing.lands = t;
          }
        }
      }
    }
    if (!info.is_exchange) continue;
    landings_.push_back({t, end});
    if (landings_.size() <= kExchangesUnderWay) continue;
    Landing& earliest = landings_[first++];
    earliest.lands = std::min(earliest.lands, t);
  }
}

void Simulation::MeasureLifetimes() {
  FindLandings();
  auto landing = landings_.begin();
  const auto end = static_cast<int32_t>(now_.items.size());
  for (const GraphOutput& output : graph_.outputs()) {
    now_.upper[Index(now_.root_of[Index(output.value)])] = end + 1;
  }
  buffer_of_.assign(now_.value_of.size(), -1);
  buffers_.clear();
  live_.assign(Index(end) + 2, 0);
  const auto add = [&](int32_t instance, int32_t lower, int32_t upper) {
    const ValueId value = now_.value_of[Index(instance)];
    buffer_of_[Index(instance)] = static_cast<int32_t>(buffers_.size());
    buffers_.push_back({lower, upper, values_[Index(value)].slot});
  };
  for (const ValueId leaf : saved_) {
    add(leaf, 0, std::max(now_.upper[Index(leaf)], 1));
  }
  for (int32_t t = 0; t < end; ++t) {
    const Item& item = now_.items[Index(t)];
    const NodeInfo& info = nodes_[Index(item.node)];
    const int32_t taken = info.in_place.any() ? BufferToTakeOver(item, t) : -1;
    for (int32_t r = 0; r < info.num_results; ++r) {
      const int32_t instance = item.first_result + r;
      if (now_.root_of[Index(instance)] != instance) continue;
      if (r == 0 && taken >= 0) {
        buffer_of_[Index(instance)] = taken;
        Buffer& buffer = buffers_[Index(taken)];
        buffer.upper = std::max(buffer.upper, now_.upper[Index(instance)]);
      } else {
        add(instance, t, now_.upper[Index(instance)]);
      }
    }
    int32_t dies = t + 1;
    if (landing != landings_.end() && landing->item == t) {
      // What an exchange works on is its own until it lands.
      dies = landing++->lands + 1;
      const auto keep = [&](int32_t instance) {
        const int32_t buffer = buffer_of_[Index(now_.root_of[Index(instance)])];
        if (buffer < 0) return;
        int32_t& upper = buffers_[Index(buffer)].upper;
        upper = std::max(upper, dies);
      };
      for (size_t i = 0; i < Index(info.num_inputs); ++i) {
        keep(now_.operands[Index(item.operands) + i]);
      }
      for (int32_t r = 0; r < info.num_results; ++r) {
        keep(item.first_result + r);
      }
    }
    live_[Index(t)] += info.workspace;
    live_[Index(dies)] -= info.workspace;
  }
  for (const Buffer& buffer : buffers_) {
    live_[Index(buffer.lower)] += buffer.size;
    live_[Index(buffer.upper)] -= buffer.size;
  }
  Bytes sum = 0, peak = 0;
  for (Bytes& live : live_) {
    sum += live;
    live = sum;
    peak = std::max(peak, sum);
  }
  peak_ = peak;
  live_.pop_back();
}

Result<Graph> Rewrite(const Graph& graph, const Simulation& simulation) {
  Rewriter to(graph);
  std::vector<Value> values(static_cast<size_t>(graph.num_values()));
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (graph.value(id).is_leaf())
      values[static_cast<size_t>(id)] = to.leaf(id);
  }
  std::vector<Value> operands;
  for (const Simulation::Item& item : simulation.items()) {
    const size_t count = graph.node(item.node).inputs.size();
    operands.clear();
    for (size_t i = 0; i < count; ++i) {
      const int32_t instance =
          simulation.operands()[static_cast<size_t>(item.operands) + i];
      operands.push_back(values[static_cast<size_t>(instance)]);
    }
    const std::vector<Value> results = to.Run(item.node, operands);
    const size_t first = static_cast<size_t>(item.first_result);
    values.resize(std::max(values.size(), first + results.size()));
    std::copy(results.begin(), results.end(),
              values.begin() + static_cast<std::ptrdiff_t>(first));
  }
  return to.Finish();
}

}  // namespace stowage::fit
