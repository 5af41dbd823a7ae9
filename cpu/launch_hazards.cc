#include "cpu/launch_hazards.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "base/index.h"
#include "ir/bodies.h"
#include "ir/exchanges.h"

namespace stowage::cpu {
namespace {

// Addresses, half-open.
struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};
using Ranges = std::vector<Range>;

// From the first to the last byte that a view reaches.
Range RangeOf(const TensorView& view) {
  if (view.size() == 0) return {};
  int64_t first = 0, last = 0;
  for (int axis = 0; axis < view.shape().rank(); ++axis) {
    const int64_t reach = (view.shape()[axis] - 1) * view.strides[axis];
    (reach < 0 ? first : last) += reach;
  }
  const Bytes element = SizeOf(view.dtype());
  const auto data = reinterpret_cast<uintptr_t>(view.data);
  return {data + static_cast<uintptr_t>(first * element),
          data + static_cast<uintptr_t>((last + 1) * element)};
}

bool Meet(const Ranges& some, const Ranges& others) {
  return std::ranges::any_of(some, [&](const Range& a) {
    return std::ranges::any_of(others, [&](const Range& b) {
      return a.begin < b.end && b.begin < a.end;
    });
  });
}

struct Accesses {
  Ranges reads, writes;
};

Accesses AccessesOf(const Launch& launch) {
  Accesses of;
  for (const TensorView& input : launch.inputs) {
    of.reads.push_back(RangeOf(input));
  }
  for (const TensorView& output : launch.outputs) {
    of.writes.push_back(RangeOf(output));
  }
  const auto scratch = reinterpret_cast<uintptr_t>(launch.workspace.data());
  of.writes.push_back({scratch, scratch + launch.workspace.size()});
  return of;
}

bool MayNotRunBeside(const Accesses& some, const Accesses& others) {
  return Meet(some.writes, others.writes) || Meet(some.writes, others.reads) ||
         Meet(some.reads, others.writes);
}

bool HasExchangeInBody(const Node& node) {
  return std::ranges::any_of(BodiesOf(node), [](const auto& body) {
    return std::ranges::any_of(body->nodes(), [](const Node& each) {
      return IsExchange(each.op) || HasExchangeInBody(each);
    });
  });
}

}  // namespace

std::vector<size_t> ExchangesToLand(const Graph& graph,
                                    std::span<const Launch> launches) {
  std::vector<size_t> to_land;
  std::vector<Accesses> exchanges;
  size_t landed = 0;
  for (const Launch& launch : launches) {
    const Node& node = graph.node(launch.node);
    Accesses own = AccessesOf(launch);
    if (HasExchangeInBody(node)) landed = exchanges.size();
    // The latest that is in its way; those before it will have landed, too.
    for (size_t e = exchanges.size(); e > landed; --e) {
      if (MayNotRunBeside(own, exchanges[e - 1])) landed = e;
    }
    if (IsExchange(node.op)) {
      exchanges.push_back(std::move(own));
      const size_t most = Index(kExchangesUnderWay);
      if (exchanges.size() > most) {
        landed = std::max(landed, exchanges.size() - most);
      }
    }
    to_land.push_back(landed);
  }
  return to_land;
}

}  // namespace stowage::cpu
