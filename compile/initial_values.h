#ifndef STOWAGE_COMPILE_INITIAL_VALUES_H_
#define STOWAGE_COMPILE_INITIAL_VALUES_H_

// The contents that params and states start from: constants of the file for frozen params,
// and the body of the function that fills the others before the first step.
//
// Frozen params outside the arena (PlanOptions::outside) are constant data, which is in flash
// and takes no RAM. Other elements are the same functions of seed, name and index as those of
// Session::Initialize (runtime/values.h), so that a compiled step starts from the
// same values as the library's.
//
//   const Constants constants(step, plan);
//   constants.NameOf("embed.weight");  // "frozen_0"
//   first_normal_f32(AT(f32, arena + 0), 100352, 0x1F2E..., 0.05, seed);  /* fc1.w */

#include <map>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage::compile {

class Constants {
 public:
  /// The constants of the training step, numbered in the order of its params.
  Constants(const Graph& graph, const Plan& plan);

  /// The name of the param's array; empty for a param in the arena.
  std::string NameOf(std::string_view param) const;
  /// The names of the arrays, by param.
  const std::map<std::string, std::string, std::less<>>& names() const {
    return names_;
  }

  /// The definitions of the arrays. Precondition: `contents` has the bytes of each.
  std::string Text(const std::map<std::string, std::string>& contents) const;

 private:
  std::map<std::string, std::string, std::less<>> names_;
  Bytes alignment_;
};

struct InitialText {
  std::string functions;  // definitions that the body calls
  std::string body;       // uses `uint64_t seed`
};

/// Params in `contents` start from those bytes; constants are omitted.
InitialText WriteInitialValues(
    const Graph& graph, const Plan& plan, const Constants& constants,
    const std::map<std::string, std::string>& contents);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_INITIAL_VALUES_H_
