#ifndef STOWAGE_COMPILE_CONSTANTS_H_
#define STOWAGE_COMPILE_CONSTANTS_H_

// Frozen params as constant data of the file, which is in flash and takes no RAM. The plan
// says which: those that it has outside of the arena (PlanOptions::outside).
//
//   const Constants constants(step);
//   constants.NameOf("embed.weight");  // "frozen_0"

#include <map>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage::compile {

class Constants {
 public:
  /// Those of the training step, numbered in the order of its params.
  Constants(const Graph& graph, const Plan& plan);

  /// The name of the param's array; empty for a param in the arena.
  std::string NameOf(std::string_view param) const;
  /// Names of arrays by param.
  const std::map<std::string, std::string, std::less<>>& names() const {
    return names_;
  }

  /// The definitions of the arrays. Precondition: `contents` has the bytes of each.
  std::string Text(const std::map<std::string, std::string>& contents) const;

 private:
  std::map<std::string, std::string, std::less<>> names_;
  Bytes alignment_;
};

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_CONSTANTS_H_
