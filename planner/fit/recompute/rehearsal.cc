#include "planner/fit/recompute/rehearsal.h"

#include <algorithm>

#include "base/check.h"
#include "ir/op_def.h"
#include "ir/rewrite.h"

namespace stowage::fit {

Rehearsal::Rehearsal(const Graph& graph, const RehearsalOptions& options)
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
    info.first_input = inputs_.size();
    info.num_inputs = node.inputs.size();
    info.first_result = node.results[0];
    info.num_results = static_cast<int32_t>(node.results.size());
    if (options.in_place) info.in_place = InPlace(graph, layouts_, node);
    info.updates = def.updates;
    info.is_view = def.is_view();
    cost_ += info.cost;
    nodes_.push_back(info);
    inputs_.insert(inputs_.end(), node.inputs.begin(), node.inputs.end());
  }
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    ValueFacts facts;
    facts.bytes = info.type.bytes();
    facts.slot = info.on_host ? 0 : AlignUp(facts.bytes, options.alignment);
    facts.root = layouts_[Index(id)].root;
    facts.producer = info.producer;
    facts.is_leaf = info.is_leaf();
    const bool is_view = !facts.is_leaf && nodes_[Index(info.producer)].is_view;
    facts.content =
        is_view ? values_[Index(graph.node(info.producer).inputs[0])].content
                : id;
    values_.push_back(facts);
  }
  FindLastStages();
  FindGaps();
}

void Rehearsal::FindLastStages() {
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
    if (info.updates > 0 || def.host_inputs != 0 || def.results_on_host ||
        def.collective) {
      info.last_stage = n;
    }
  }
}

bool Rehearsal::MayBeDropped(ValueId id) const {
  const ValueInfo& info = graph_.value(id);
  return root(id) == id && !info.is_leaf() && !info.on_host &&
         graph_.node(info.producer).phase == Phase::kForward &&
         !uses_.is_output(id) && uses_.overwriter(id) == kNoNode;
}

void Rehearsal::FindGaps() {
  for (const GraphOutput& output : graph_.outputs()) {
    const NodeId producer = graph_.value(output.value).producer;
    if (producer != kNoNode) nodes_[Index(producer)].is_output = true;
  }
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    first_gap_.push_back(gaps_.size());
    if (!MayBeDropped(id)) continue;
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
    as_given_.push_back(Fate::kRemade);
  }
  first_gap_.push_back(gaps_.size());
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    at_start_.push_back(
        {.latest = values_[Index(id)].is_leaf ? id : -1,
         .holds = id,
         .gap = static_cast<int32_t>(first_gap_[Index(id)]),
         .end_gap = static_cast<int32_t>(first_gap_[Index(id) + 1])});
  }
}

// Whether a node that runs for `stage` can read the value as it is.
bool Rehearsal::IsCurrent(ValueId id, NodeId stage) {
  const ValueId root_id = root(id);
  ValueState& state = states_[Index(root_id)];
  if (state.latest < 0) return false;
  if (!fates_.empty() && state.gap < state.end_gap) {
    // The gap that the stage is in, or the last; before the first, all is there.
    int32_t& gap = state.gap;
    while (gaps_[Index(gap)].end < stage && gap + 1 < state.end_gap) ++gap;
    const NodeId begin = gaps_[Index(gap)].begin;
    const Fate fate = fates_[Index(gap)];
    if (stage > begin && fate != Fate::kKept) {
      if (state.made_at <= begin) return false;
      if (fate == Fate::kRemadeEachTime && state.made_at != stage) return false;
    }
  }
  if (id == root_id) return true;
  const int32_t now = states_[Index(id)].latest;
  return now >= 0 && root_of_[Index(now)] == state.latest;
}

// Finds the nodes that must run before `node` can, for `stage`. False when one
// of them reads what has been overwritten by then.
bool Rehearsal::CollectMissing(NodeId node, NodeId stage) {
  ++searches_;
  missing_.clear();
  stack_.assign(1, node);
  while (!stack_.empty()) {
    const NodeId n = stack_.back();
    stack_.pop_back();
    if (n != node) missing_.push_back(n);
    for (const ValueId input : inputs(nodes_[Index(n)])) {
      const ValueFacts& facts = values_[Index(input)];
      if (states_[Index(facts.root)].holds != facts.content) return false;
      if (IsCurrent(input, stage)) continue;
      const NodeId producer = facts.producer;
      if (producer == kNoNode) return false;
      if (wanted_[Index(producer)] == searches_) continue;
      wanted_[Index(producer)] = searches_;
      stack_.push_back(producer);
    }
  }
  std::sort(missing_.begin(), missing_.end());
  return true;
}

void Rehearsal::Emit(NodeId id, NodeId stage) {
  const NodeInfo& info = nodes_[Index(id)];
  Item item{.node = id,
            .stage = stage,
            .operands = static_cast<int32_t>(operands_.size()),
            .first_result = info.first_result,
            .again = has_run_[Index(id)] != 0};
  has_run_[Index(id)] = 1;
  const auto after = static_cast<int32_t>(items_.size()) + 1;
  for (const ValueId input : inputs(info)) {
    const int32_t operand = states_[Index(input)].latest;
    operands_.push_back(operand);
    upper_[Index(root_of_[Index(operand)])] = after;
  }
  if (item.again) {
    item.first_result = static_cast<int32_t>(value_of_.size());
    for (int32_t r = 0; r < info.num_results; ++r) {
      value_of_.push_back(info.first_result + r);
      root_of_.push_back(-1);
      upper_.push_back(0);
    }
    extra_cost_ += info.cost;
    if (!info.is_view) ++nodes_again_;
  }
  for (int32_t r = 0; r < info.num_results; ++r) {
    const ValueId result = info.first_result + r;
    const int32_t instance = item.first_result + r;
    const bool is_update = r < info.updates;
    int32_t& root_now = root_of_[Index(instance)];
    root_now = info.is_view ? root_of_[Index(operands_[Index(item.operands)])]
               : is_update  ? root(result)
                            : instance;
    upper_[Index(root_now)] = after;
    if (!info.is_view) states_[Index(root(result))].holds = result;
    states_[Index(result)].latest = instance;
    states_[Index(result)].made_at = stage;
  }
  items_.push_back(item);
}

void Rehearsal::Start() {
  const auto values = Index(graph_.num_values());
  items_.clear();
  operands_.clear();
  extra_cost_ = 0;
  nodes_again_ = 0;
  states_ = at_start_;
  value_of_.resize(values);
  root_of_.resize(values);
  upper_.assign(values, 0);
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    value_of_[Index(id)] = root_of_[Index(id)] = id;
  }
  has_run_.assign(nodes_.size(), 0);
  wanted_.assign(nodes_.size(), 0);
  searches_ = 0;
}

bool Rehearsal::RunNode(NodeId id, NodeId stage) {
  if (!CollectMissing(id, stage)) return false;
  for (const NodeId missing : missing_) Emit(missing, stage);
  Emit(id, stage);
  return true;
}

bool Rehearsal::RunStage(NodeId stage) {
  // A view is taken when somebody wants it, lest its root live for it alone.
  const NodeInfo& info = nodes_[Index(stage)];
  if (info.is_view && !info.is_output) return true;
  return RunNode(stage, stage);
}

bool Rehearsal::Run(std::span<const Fate> fates) {
  fates_.assign(fates.begin(), fates.end());
  Start();
  for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
    if (!RunStage(n)) return false;
  }
  MeasureLifetimes();
  return true;
}

bool Rehearsal::Run(const Script& script) {
  fates_.clear();
  Start();
  auto next = script.begin();
  for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
    for (; next != script.end() && next->stage == n; ++next) {
      if (next->node >= n || !RunNode(next->node, n)) return false;
    }
    if (!RunStage(n)) return false;
  }
  MeasureLifetimes();
  return next == script.end();
}

Script Rehearsal::script() const {
  Script script;
  for (const Item& item : items_) {
    if (!item.again || nodes_[Index(item.node)].is_view) continue;
    script.push_back({item.stage, item.node});
  }
  return script;
}

bool Rehearsal::may_take_over(NodeId id, ValueId root_id) const {
  return nodes_[Index(id)].in_place.MayTakeOver(layouts_, graph_.node(id),
                                                root_id);
}

// As in planner/lifetimes.h, on instances.
int32_t Rehearsal::BufferToTakeOver(const Item& item, int32_t time) const {
  const NodeInfo& info = nodes_[Index(item.node)];
  const auto buffer = [&](size_t i) {
    const int32_t operand = operands_[Index(item.operands) + i];
    return buffer_of_[Index(root_of_[Index(operand)])];
  };
  for (size_t i = 0; i < info.num_inputs; ++i) {
    if (!info.in_place.operand(i)) continue;
    const int32_t candidate = buffer(i);
    const Buffer& b = buffers_[Index(candidate)];
    if (!b.packed || b.upper != time + 1) continue;
    const auto lies_in = [&](size_t j) { return buffer(j) == candidate; };
    if (info.in_place.MayTakeOver(info.num_inputs, lies_in)) return candidate;
  }
  return -1;
}

void Rehearsal::MeasureLifetimes() {
  const auto end = static_cast<int32_t>(items_.size());
  for (const GraphOutput& output : graph_.outputs()) {
    upper_[Index(root_of_[Index(output.value)])] = end + 1;
  }
  buffer_of_.assign(value_of_.size(), -1);
  buffers_.clear();
  live_.assign(Index(end) + 2, 0);
  const auto add = [&](int32_t instance, int32_t lower, bool packed) {
    const ValueId value = value_of_[Index(instance)];
    buffer_of_[Index(instance)] = static_cast<int32_t>(buffers_.size());
    buffers_.push_back(
        {lower, upper_[Index(instance)], values_[Index(value)].slot, packed});
  };
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    if (!values_[Index(id)].is_leaf) continue;
    upper_[Index(id)] = std::max(upper_[Index(id)], 1);
    add(id, 0, graph_.value(id).role == Role::kSaved);
  }
  for (int32_t t = 0; t < end; ++t) {
    const Item& item = items_[Index(t)];
    const NodeInfo& info = nodes_[Index(item.node)];
    const int32_t taken = info.in_place.any() ? BufferToTakeOver(item, t) : -1;
    for (int32_t r = 0; r < info.num_results; ++r) {
      const int32_t instance = item.first_result + r;
      if (root_of_[Index(instance)] != instance) continue;
      if (r == 0 && taken >= 0) {
        buffer_of_[Index(instance)] = taken;
        Buffer& buffer = buffers_[Index(taken)];
        buffer.upper = std::max(buffer.upper, upper_[Index(instance)]);
      } else {
        add(instance, t, true);
      }
    }
    live_[Index(t)] += info.workspace;
    live_[Index(t) + 1] -= info.workspace;
  }
  for (const Buffer& buffer : buffers_) {
    if (!buffer.packed) continue;
    live_[Index(buffer.lower)] += buffer.size;
    live_[Index(buffer.upper)] -= buffer.size;
  }
  peak_ = 0;
  Bytes sum = 0;
  for (Bytes& live : live_) {
    sum += live;
    live = sum;
    peak_ = std::max(peak_, sum);
  }
  live_.pop_back();
}

Result<Graph> Rewrite(const Graph& graph, const Rehearsal& rehearsal) {
  Rewriter to(graph);
  std::vector<Value> values(static_cast<size_t>(graph.num_values()));
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (graph.value(id).is_leaf())
      values[static_cast<size_t>(id)] = to.leaf(id);
  }
  std::vector<Value> operands;
  for (const Rehearsal::Item& item : rehearsal.items()) {
    const size_t count = graph.node(item.node).inputs.size();
    operands.clear();
    for (size_t i = 0; i < count; ++i) {
      const int32_t instance =
          rehearsal.operands()[static_cast<size_t>(item.operands) + i];
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
