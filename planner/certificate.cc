#include "planner/certificate.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/uses.h"
#include "planner/lifetimes.h"

namespace stowage {
namespace {

// Edges that are looked at in the search for the largest order bound.
constexpr int64_t kEdgesToVisit = 100'000'000;

// A value that owns bytes, or scratch, as a certificate has it.
struct Certified {
  std::string name;
  NodeId maker = kNoNode;
  Bytes size = 0;  // that it needs, unpadded
  bool kept = false;
  std::vector<NodeId> uses = {};
  int32_t buffer = -1;  // of the plan; -1: in host memory
  // In the plan:
  Time last = 0;       // of its uses
  Time hold = -1;      // live at least until then
  int32_t over = -1;   // the operand it is written over
  bool taken = false;  // by a result, at `last`
};

// Result 0 of a node, and the operands that it may be written over.
struct Overwrite {
  NodeId node = kNoNode;
  int32_t result = -1;
  std::vector<int32_t> operands = {};
};

struct OrderBound {
  NodeId node = kNoNode;
  Bytes bytes = 0;
};

class Certifier {
 public:
  Certifier(const Graph& graph, const Plan& plan)
      : graph_(graph),
        plan_(plan),
        layouts_(ComputeLayouts(graph)),
        uses_(graph, layouts_),
        index_of_(Index(graph.num_values()), -1) {
    AddValues();
    for (NodeId n = 0; n < graph.num_nodes(); ++n) AddNode(n);
    FindLifetimes();
    CountLive();
    FindOrderBound();
  }

  const OrderBound& order_bound() const { return order_bound_; }

  std::string PlanText() const {
    std::string text = GraphText("plan");
    for (const Certified& value : values_) {
      const bool is_placed = value.buffer >= 0;
      const PlannedBuffer slot =
          is_placed ? plan_.buffers[Index(value.buffer)] : PlannedBuffer();
      text += StrCat("slot ", is_placed ? plan_.AddressOf(slot) : 0, " ",
                     Padded(slot.size), " ", value.hold, " ", value.over, "\n");
    }
    const auto peak = std::ranges::max_element(live_);
    text += StrCat("arena ", plan_.arena_bytes(), "\nlower-bound ",
                   peak - live_.begin(), " ", *peak, "\n");
    if (order_bound_.node != kNoNode) text += OrderBoundText();
    return text + "end\n";
  }

  std::string RefusalText(Bytes budget) const {
    return StrCat(GraphText("refusal"), OrderBoundText(), "budget ", budget,
                  "\nend\n");
  }

 private:
  ValueId RootOf(ValueId id) const { return layouts_[Index(id)].root; }
  Bytes Padded(Bytes size) const { return AlignUp(size, plan_.alignment); }

  void AddValues() {
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      if (RootOf(id) != id) continue;
      const ValueInfo& value = graph_.value(id);
      index_of_[Index(id)] = static_cast<int32_t>(values_.size());
      const std::span<const NodeId> uses = uses_.uses(id);
      values_.push_back({
          .name = value.name,
          .maker = value.producer,
          .size = value.on_host ? 0 : value.type.bytes(),
          .kept = uses_.is_output(id) ||
                  (value.is_leaf() && value.role != Role::kSaved),
          .uses = {uses.begin(), uses.end()},
          .buffer = value.on_host ? -1 : plan_.buffer_of[Index(id)],
      });
    }
    if (plan_.reserve >= 0) {
      const PlannedBuffer& reserve = plan_.buffers[Index(plan_.reserve)];
      values_.push_back({.name = reserve.name,
                         .size = reserve.size,
                         .kept = true,
                         .buffer = plan_.reserve});
    }
    AddScratch();
  }

  void AddScratch() {
    // A body is packed again in every plan: a bound counts what it needs at least.
    std::vector<Bytes> bounds(Index(graph_.num_nodes()), 0);
    for (const BodyPlan& body : plan_.bodies) {
      if (graph_.node(body.node).op != OpKind::kLoop) continue;
      Bytes& bound = bounds[Index(body.node)];
      bound = std::max(bound, body.plan.lower_bound);
    }
    for (NodeId n = 0; n < graph_.num_nodes(); ++n) {
      const int32_t scratch = plan_.workspace_of[Index(n)];
      if (scratch < 0) continue;
      const PlannedBuffer& buffer = plan_.buffers[Index(scratch)];
      const bool has_bodies = !BodiesOf(graph_.node(n)).empty();
      values_.push_back({.name = buffer.name,
                         .maker = n,
                         .size = has_bodies ? bounds[Index(n)] : buffer.size,
                         .buffer = scratch});
    }
  }

  void AddNode(NodeId n) {
    const Node& node = graph_.node(n);
    for (const ValueId input : node.inputs) {
      const ValueInfo& value = graph_.value(input);
      // Edges from the makers of roots are uses.
      if (!value.is_leaf() && RootOf(input) != input) {
        after_.emplace_back(value.producer, n);
      }
    }
    // New content waits for all that use the old.
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      for (const NodeId user : uses_.uses(RootOf(node.inputs[Index(r)]))) {
        if (user < n) after_.emplace_back(user, n);
      }
    }
    const InPlace in_place(graph_, layouts_, node);
    if (!in_place.any() || RootOf(node.results[0]) != node.results[0]) return;
    Overwrite overwrite{.node = n, .result = index_of_[Index(node.results[0])]};
    for (const ValueId input : node.inputs) {
      const int32_t operand = index_of_[Index(RootOf(input))];
      if (values_[Index(operand)].kept ||
          values_[Index(operand)].size !=
              values_[Index(overwrite.result)].size ||
          std::ranges::count(overwrite.operands, operand) > 0 ||
          !in_place.MayTakeOver(layouts_, node, RootOf(input))) {
        continue;
      }
      overwrite.operands.push_back(operand);
    }
    if (!overwrite.operands.empty()) overwrites_.push_back(overwrite);
  }

  // Who is written over whom, and which values the plan holds longer than their uses.
  void FindLifetimes() {
    for (Certified& value : values_) {
      value.last = std::max(value.maker, 0);
      for (const NodeId use : value.uses) {
        value.last = std::max<Time>(value.last, use);
      }
      if (value.kept) value.last = graph_.num_nodes();
    }
    for (const Overwrite& overwrite : overwrites_) {
      Certified& result = values_[Index(overwrite.result)];
      for (const int32_t operand : overwrite.operands) {
        Certified& value = values_[Index(operand)];
        if (value.buffer != result.buffer || value.last != overwrite.node) {
          continue;
        }
        result.over = operand;
        value.taken = true;
      }
    }
    for (Certified& value : values_) {
      if (value.buffer < 0 || value.taken) continue;
      const Time stated = plan_.buffers[Index(value.buffer)].upper - 1;
      if (stated > value.last) value.hold = value.last = stated;
    }
  }

  // The bytes live at each time, the end included.
  void CountLive() {
    live_.assign(Index(graph_.num_nodes()) + 1, 0);
    for (const Certified& value : values_) {
      live_[Index(std::max(value.maker, 0))] += Padded(value.size);
      const Time end = value.taken ? value.last : value.last + 1;
      if (end < std::ssize(live_)) live_[Index(end)] -= Padded(value.size);
    }
    std::partial_sum(live_.begin(), live_.end(), live_.begin());
  }

  // From the node with the most live bytes down: no bound of a node is above what is
  // live in the order at hand.
  void FindOrderBound() {
    edges_ = after_;
    for (const Certified& value : values_) {
      if (value.maker == kNoNode) continue;
      for (const NodeId use : value.uses) {
        edges_.emplace_back(value.maker, use);
      }
    }
    std::ranges::sort(edges_);
    edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
    by_end_ = edges_;
    std::ranges::sort(by_end_, std::greater<>(),
                      &std::pair<NodeId, NodeId>::second);
    std::vector<NodeId> nodes(Index(graph_.num_nodes()));
    std::iota(nodes.begin(), nodes.end(), 0);
    std::ranges::stable_sort(nodes, std::greater<>(),
                             [&](NodeId n) { return live_[Index(n)]; });
    int64_t left = kEdgesToVisit;
    for (const NodeId n : nodes) {
      if (live_[Index(n)] <= order_bound_.bytes || left < 0) break;
      left -= 2 * std::ssize(edges_) + std::ssize(values_);
      const Bytes bytes = OrderBoundOf(n);
      if (order_bound_.node == kNoNode || bytes > order_bound_.bytes) {
        order_bound_ = {.node = n, .bytes = bytes};
      }
    }
  }

  Bytes OrderBoundOf(NodeId node) const {
    std::vector<bool> before(Index(graph_.num_nodes()), false);
    std::vector<bool> after = before;
    before[Index(node)] = after[Index(node)] = true;
    for (const auto& [begin, end] : edges_) {
      if (after[Index(begin)]) after[Index(end)] = true;
    }
    for (const auto& [begin, end] : by_end_) {
      if (before[Index(end)]) before[Index(begin)] = true;
    }
    const auto outlives = [&](const Certified& value) {
      return value.kept || std::ranges::any_of(value.uses, [&](NodeId use) {
               return use != node && after[Index(use)];
             });
    };
    Bytes sum = 0;
    for (const Certified& value : values_) {
      const bool is_made = value.maker == kNoNode || before[Index(value.maker)];
      const bool is_needed = value.maker == node ||
                             std::ranges::count(value.uses, node) > 0 ||
                             outlives(value);
      if (is_made && is_needed) sum += Padded(value.size);
    }
    for (const Overwrite& overwrite : overwrites_) {
      if (overwrite.node != node) continue;
      Bytes most = 0;
      for (const int32_t operand : overwrite.operands) {
        const Certified& value = values_[Index(operand)];
        if (!outlives(value)) most = std::max(most, Padded(value.size));
      }
      sum -= most;
    }
    return sum;
  }

  std::string GraphText(std::string_view claim) const {
    std::string text = StrCat(
        "stowage-certificate 1\nclaim ", claim, "  # ", Quoted(graph_.name()),
        "\nalignment ", plan_.alignment, "\nnodes ", graph_.num_nodes(), "\n");
    for (const Certified& value : values_) {
      text += StrCat("value ", value.maker, " ", value.size, " ",
                     value.kept ? 1 : 0);
      for (const NodeId use : value.uses) text += StrCat(" ", use);
      text += StrCat("  # ", Quoted(value.name), "\n");
    }
    for (const auto& [first, second] : after_) {
      text += StrCat("after ", first, " ", second, "\n");
    }
    for (const Overwrite& overwrite : overwrites_) {
      text += StrCat("overwrite ", overwrite.node, " ", overwrite.result);
      for (const int32_t operand : overwrite.operands) {
        text += StrCat(" ", operand);
      }
      text += "\n";
    }
    return text;
  }

  std::string OrderBoundText() const {
    return StrCat("order-bound ", order_bound_.node, " ", order_bound_.bytes,
                  "\n");
  }

  const Graph& graph_;
  const Plan& plan_;
  const Layouts layouts_;
  const Uses uses_;
  std::vector<int32_t> index_of_;  // per value of the graph: in values_; -1
  std::vector<Certified> values_;
  std::vector<std::pair<NodeId, NodeId>> after_;  // edges that are no uses
  std::vector<Overwrite> overwrites_;
  std::vector<Bytes> live_;                        // per time
  std::vector<std::pair<NodeId, NodeId>> edges_;   // all, by their begin
  std::vector<std::pair<NodeId, NodeId>> by_end_;  // by their end, falling
  OrderBound order_bound_;
};

}  // namespace

std::string CertifyPlan(const Graph& graph, const Plan& plan) {
  return Certifier(graph, plan).PlanText();
}

Result<std::string> CertifyRefusal(const Graph& graph, const Plan& plan,
                                   Bytes budget) {
  const Certifier certifier(graph, plan);
  const OrderBound& bound = certifier.order_bound();
  if (bound.node == kNoNode) {
    return UnsupportedError("[certificate] ", Quoted(graph.name()),
                            " has no nodes, whose memory a refusal could "
                            "certify");
  }
  if (bound.bytes <= budget) {
    return UnsupportedError(
        "[certificate] every order of ", Quoted(graph.name()),
        " is known to need ", bound.bytes, " bytes, while ",
        graph.Describe(bound.node), " runs; that is within the budget of ",
        budget, " bytes, so the refusal has no certificate");
  }
  return certifier.RefusalText(budget);
}

}  // namespace stowage
