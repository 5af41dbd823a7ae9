#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/canonicalize/expressions.h"
#include "ir/ops.h"

namespace stowage::canonical {
namespace {

constexpr int kMaxLayoutDepth = 16;

Layout Own(const Graph& graph, ValueId id) {
  Layout layout{.source = id};
  for (const int64_t size : graph.value(id).type.shape) {
    auto& axis = layout.axes.emplace_back();
    if (size == 1) continue;
    axis.push_back(static_cast<int>(layout.parts.size()));
    layout.of_source.push_back(axis.back());
    layout.parts.push_back({.size = size});
  }
  return layout;
}

// Cuts a part in two, of which the first has `size` elements.
void Cut(Layout* layout, int part, int64_t size) {
  const auto rest = static_cast<int>(layout->parts.size());
  Part& first = layout->parts[Index(part)];
  layout->parts.push_back({first.size / size, first.repeated});
  layout->parts[Index(part)].size = size;
  const auto cut = [&](std::vector<int>& list) {
    const auto at = std::ranges::find(list, part);
    if (at != list.end()) list.insert(at + 1, rest);
  };
  for (auto& axis : layout->axes) cut(axis);
  cut(layout->of_source);
}

// Nothing if an axis would end inside a part that it does not divide.
std::optional<Layout> Reshaped(Layout layout, const Shape& shape) {
  std::vector<int> flat;
  for (const auto& axis : layout.axes) {
    flat.insert(flat.end(), axis.begin(), axis.end());
  }
  layout.axes = {flat};  // one list, in which Cut inserts
  size_t next = 0;
  std::vector<std::vector<int>> axes;
  for (const int64_t size : shape) {
    auto& axis = axes.emplace_back();
    int64_t filled = 1;
    while (filled < size) {
      auto& list = layout.axes[0];
      if (next == list.size()) return {};
      const int part = list[next];
      const int64_t of_part = layout.parts[Index(part)].size;
      const int64_t wanted = size / filled;
      if (size % filled != 0) return {};
      if (of_part > wanted) {
        if (of_part % wanted != 0) return {};
        Cut(&layout, part, wanted);
      } else if (wanted % of_part != 0) {
        return {};
      }
      axis.push_back(part);
      filled *= layout.parts[Index(part)].size;
      ++next;
    }
  }
  if (next != layout.axes[0].size()) return {};
  layout.axes = std::move(axes);
  return layout;
}

Layout Broadcasted(Layout layout, const Shape& from, const Shape& to) {
  const int added = to.rank() - from.rank();
  layout.axes.insert(layout.axes.begin(), static_cast<size_t>(added), {});
  for (int i = 0; i < to.rank(); ++i) {
    const int64_t size = i < added ? 1 : from[i - added];
    if (size == to[i]) continue;
    layout.axes[Index(i)] = {static_cast<int>(layout.parts.size())};
    layout.parts.push_back({.size = to[i], .repeated = true});
  }
  return layout;
}

Layout TracedLayout(const Expressions& e, ValueId id, int depth) {
  const Graph& graph = e.graph();
  const NodeId producer = graph.value(id).producer;
  if (producer == kNoNode || depth == kMaxLayoutDepth) return Own(graph, id);
  const Node& node = graph.node(producer);
  const auto below = [&](size_t i) {
    return TracedLayout(e, node.inputs[i], depth + 1);
  };
  switch (node.op) {
    case OpKind::kCopy:
      return below(0);
    case OpKind::kPermute: {
      Layout layout = below(0);
      const auto axes = layout.axes;
      const auto& order = node.attrs.Ints("order");
      for (size_t i = 0; i < order.size(); ++i) {
        layout.axes[i] = axes[static_cast<size_t>(order[i])];
      }
      return layout;
    }
    case OpKind::kReshape: {
      auto layout = Reshaped(below(0), graph.value(id).type.shape);
      return layout ? *std::move(layout) : Own(graph, id);
    }
    case OpKind::kBroadcast:
      return Broadcasted(below(0), graph.value(node.inputs[0]).type.shape,
                         graph.value(id).type.shape);
    case OpKind::kMul:
      for (const size_t i : {0, 1}) {
        const auto number = e.Number(node.inputs[i]);
        if (!number) continue;
        Layout layout = below(1 - i);
        layout.factor *= *number;
        return layout;
      }
      return Own(graph, id);
    case OpKind::kDiv: {
      const auto number = e.Number(node.inputs[1]);
      if (!number || *number == 0) return Own(graph, id);
      Layout layout = below(0);
      layout.factor /= *number;
      return layout;
    }
    default:
      return Own(graph, id);
  }
}

}  // namespace

Layout LayoutOf(const Expressions& e, ValueId id) {
  return TracedLayout(e, id, 0);
}

int64_t SizeOf(const Layout& layout, const std::vector<int>& axis) {
  int64_t size = 1;
  for (const int part : axis) {
    if (!layout.parts[Index(part)].repeated) {
      size *= layout.parts[Index(part)].size;
    }
  }
  return size;
}

bool IsWhole(const Layout& layout, const std::vector<std::vector<int>>& axes) {
  std::vector<int> used;
  for (const auto& axis : axes)
    used.insert(used.end(), axis.begin(), axis.end());
  std::vector<int> all = layout.of_source;
  std::ranges::sort(used);
  std::ranges::sort(all);
  return used == all;
}

Value Arranged(const Layout& layout, const std::vector<std::vector<int>>& axes,
               Value source) {
  std::vector<int64_t> cut;
  for (const int part : layout.of_source) {
    cut.push_back(layout.parts[Index(part)].size);
  }
  Axes order;
  std::vector<int64_t> sizes;
  for (const auto& axis : axes) {
    for (const int part : axis) {
      order.push_back(std::ranges::find(layout.of_source, part) -
                      layout.of_source.begin());
    }
    sizes.push_back(SizeOf(layout, axis));
  }
  const Shape result{std::span<const int64_t>(sizes)};
  if (!std::ranges::is_sorted(order)) {
    const Shape parts{std::span<const int64_t>(cut)};
    if (source.shape() != parts) source = Reshape(source, parts);
    source = Permute(source, order);
  }
  return source.shape() == result ? source : Reshape(source, result);
}

std::optional<Match> MatchPermutation(const Expressions& e, NodeId id) {
  const Node& node = e.graph().node(id);
  const ValueId x = node.inputs[0];
  if (node.op == OpKind::kCopy) {
    // The exporter copied so that a reshape could view it; ours needs no copy.
    if (e.Made(x, OpKind::kAttention) == nullptr) return {};
    return Match{
        "", {x}, [](GraphBuilder&, auto operands) { return operands[0]; }};
  }
  if (node.op != OpKind::kPermute) return {};
  const Node* inner = e.Made(x, OpKind::kPermute);
  if (inner == nullptr) return {};
  const auto& first = inner->attrs.Ints("order");
  Axes order;
  bool is_same = true;
  for (const int64_t axis : node.attrs.Ints("order")) {
    order.push_back(first[static_cast<size_t>(axis)]);
    is_same = is_same && order.back() == std::ssize(order) - 1;
  }
  return Match{
      "", {inner->inputs[0]}, [order, is_same](GraphBuilder&, auto operands) {
        return is_same ? operands[0] : Permute(operands[0], order);
      }};
}

}  // namespace stowage::canonical
