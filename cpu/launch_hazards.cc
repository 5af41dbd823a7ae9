#include "cpu/launch_hazards.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "ir/bodies.h"
#include "ir/exchanges.h"
#include "runtime/launch_accesses.h"

namespace stowage::cpu {
namespace {

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
  std::vector<LaunchAccesses> exchanges;
  size_t landed = 0;
  for (const Launch& launch : launches) {
    const Node& node = graph.node(launch.node);
    LaunchAccesses own(launch);
    if (HasExchangeInBody(node)) landed = exchanges.size();
    // The latest that is in its way; those before it will have landed, too.
    for (size_t e = exchanges.size(); e > landed; --e) {
      if (!own.MayRunBeside(exchanges[e - 1])) landed = e;
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
